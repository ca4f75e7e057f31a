"""Four mixes of jobs on one link, against a fluid model: where the literal algorithm fails, and paceline does not."""

import pytest

from tests.flowcore.paper_setup import measured

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("policy", "slowdown"),
    [("fair", 1.46), ("fifo", 1.01), ("srpt", 1.01), ("mlcc", 1.20), ("paceline", 1.01)],
)
def test_two_equal_jobs_fit_exactly_if_they_take_turns(policy: str, slowdown: float) -> None:
    """First mix: 2 × (0.2 s compute, 0.2 s communication)."""
    assert measured(policy, 2, (0.2, 0.2)).mean_slowdown == pytest.approx(slowdown, abs=0.05)


@pytest.mark.parametrize(("policy", "slowdown"), [("fair", 1.22), ("fifo", 1.75), ("srpt", 1.16)])
def test_a_short_job_beside_a_long_one(policy: str, slowdown: float) -> None:
    """Second mix: (0.15/0.30) + (0.12/0.06)."""
    assert measured(policy, 1, (0.15, 0.3), (0.12, 0.06)).mean_slowdown == pytest.approx(slowdown, abs=0.06)


@pytest.mark.parametrize(("policy", "slowdown"), [("fifo", 1.50), ("mlcc", 1.58), ("paceline", 1.50)])
def test_three_jobs_for_the_time_of_two(policy: str, slowdown: float) -> None:
    """Third mix: 3 × (0.2/0.2); the bound is 1.5."""
    assert measured(policy, 3, (0.2, 0.2)).mean_slowdown == pytest.approx(slowdown, abs=0.10)


@pytest.mark.parametrize(("policy", "slowdown"), [("fair", 1.39), ("fifo", 2.13), ("srpt", 1.33)])
def test_a_job_longer_than_the_horizon(policy: str, slowdown: float) -> None:
    """Fourth mix: (0.3/1.0) + (0.2/0.2)."""
    assert measured(policy, 1, (0.3, 1.0), (0.2, 0.2)).mean_slowdown == pytest.approx(slowdown, abs=0.06)


@pytest.mark.parametrize("mix", [((0.15, 0.3), (0.12, 0.06)), ((0.3, 1.0), (0.2, 0.2))])
def test_literal_mlcc_is_first_come_first_served_in_disguise(mix: tuple[tuple[float, float], ...]) -> None:
    """First come, first served in disguise: the short job waits behind the long one, and both lose to TCP."""
    literal, fair = measured("mlcc", 1, *mix), measured("fair", 1, *mix)
    assert literal.mean_slowdown > 1.3 * fair.mean_slowdown
    assert literal.jobs[1].slowdown > 2 * literal.jobs[0].slowdown


def test_quantisation_costs_what_shorter_slots_win_back() -> None:
    """Quantisation: a flow that becomes ready inside a slot waits for the next one, even alone."""
    coarse = measured("mlcc", 1, (0.2, 0.2)).mean_slowdown
    fine = measured("mlcc", 1, (0.2, 0.2), slot_ms=30.0).mean_slowdown
    assert coarse == pytest.approx(0.48 / 0.40, abs=0.03)  # whole slots
    assert fine < coarse - 0.05
    assert measured("paceline", 1, (0.2, 0.2)).mean_slowdown == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize(
    ("copies", "mix"),
    [(2, ((0.2, 0.2),)), (1, ((0.15, 0.3), (0.12, 0.06))), (3, ((0.2, 0.2),)), (1, ((0.3, 1.0), (0.2, 0.2)))],
)
def test_paceline_repairs_all_four(copies: int, mix: tuple[tuple[float, float], ...]) -> None:
    """On every mix paceline is not worse than TCP, FIFO or the literal algorithm."""
    slowdown = measured("paceline", copies, *mix).mean_slowdown
    for policy in ("fair", "fifo", "mlcc"):
        assert slowdown <= measured(policy, copies, *mix).mean_slowdown * 1.02
