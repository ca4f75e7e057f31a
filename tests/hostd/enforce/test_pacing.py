"""pacing: borrowing for those who cannot, and the sysctl that is not ours."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.testbed.namespace import Namespace
from flowcore.patterns import FlowId, Role
from flowcore.units import UNLIMITED
from hostd.enforce.base import Limit
from hostd.enforce.pacing import TSO_RTT_LOG, PacingBackend, borrowing
from hostd.journal import Journal

LINK_BPS = 1e9
RATES = st.floats(1e6, LINK_BPS)


def limit(rate_bps: float, ceiling_bps: float, job: str = "a") -> Limit:
    return Limit(FlowId(job, "h0", "h1", Role.RING), rate_bps, ceiling_bps)


@given(st.lists(st.tuples(RATES, RATES), max_size=6))
def test_guarantees_are_kept_and_the_link_is_not_exceeded(pairs: list[tuple[float, float]]) -> None:
    limits = [limit(min(pair), max(pair)) for pair in pairs]
    rates = borrowing(limits, LINK_BPS)
    for one, rate in zip(limits, rates, strict=True):
        assert one.rate_bps * (1 - 1e-9) <= rate <= one.ceiling_bps * (1 + 1e-9)
    promised = sum(one.rate_bps for one in limits)
    assert sum(rates) <= max(promised, LINK_BPS) * (1 + 1e-9)
    # Work-conserving: the link is full, or everybody is at the ceiling.
    at_ceiling = all(rate >= one.ceiling_bps * (1 - 1e-9) for one, rate in zip(limits, rates, strict=True))
    assert at_ceiling or sum(rates) >= LINK_BPS * (1 - 1e-9)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([limit(1e6, LINK_BPS)], [LINK_BPS]),  # alone: all that is left
        ([limit(999e6, LINK_BPS), limit(1e6, LINK_BPS)], [999e6, 1e6]),  # hand-over: nothing is left
        ([limit(0, LINK_BPS), limit(1e6, LINK_BPS)], [LINK_BPS, LINK_BPS]),  # the idle one takes no share
        ([limit(UNLIMITED, UNLIMITED), limit(1e6, 2e6)], [UNLIMITED, 2e6]),
        ([limit(1e6, 100e6), limit(1e6, LINK_BPS)], [100e6, 900e6]),
    ],
)
def test_who_gets_what(limits: list[Limit], expected: list[float]) -> None:
    assert borrowing(limits, LINK_BPS) == pytest.approx(expected)


def test_without_a_known_link_everybody_goes_up_to_the_ceiling() -> None:
    assert borrowing([limit(1e6, 2e6), limit(3e6, 5e6)], math.inf) == [2e6, 5e6]


@pytest.mark.parametrize("allowed", [True, False])
def test_the_sysctl_is_set_only_if_allowed_and_comes_back(tmp_path: Path, allowed: bool) -> None:
    with Namespace("one") as one, one.enter():
        TSO_RTT_LOG.write_text("7")
        backend = PacingBackend(Journal(tmp_path / "lease.json"), small_bundles=allowed)
        assert TSO_RTT_LOG.read_text() == ("0\n" if allowed else "7\n")
        assert backend.close() == []
        assert TSO_RTT_LOG.read_text() == "7\n"
