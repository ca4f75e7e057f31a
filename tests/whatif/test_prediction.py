"""What jobs lose now and what they would gain."""

from typing import Any

import pytest

from paceline.flowcore.model.topology import star
from paceline.whatif.measured import measured_cluster
from paceline.whatif.prediction import Prediction, predict
from paceline.whatif.record import parse_record
from tests.whatif.watched import flow, job, pair, record


def predicted(*records: dict[str, Any], seed: int = 1) -> Prediction:
    return predict(measured_cluster([parse_record(one, one["host"]) for one in records]), seed, draws=1)


def two_jobs(iteration_ms: float, **more: Any) -> list[dict[str, Any]]:
    """That fit if they take turns: 80 ms of computing, 80 of sending."""
    jobs = [pair(name, 10e6, iteration_ms, 80, **more) for name in ("a", "b")]
    return [record(host, *(job[number] for job in jobs)) for number, host in enumerate(("h0", "h1"))]


def test_jobs_that_collide_gain_what_they_lose_if_they_fit() -> None:
    found = predicted(*two_jobs(200))
    assert found.mean_now == pytest.approx(1.25) and found.lost == pytest.approx(0.2)
    assert found.mean_expected == pytest.approx(1.0, abs=0.02)
    assert found.gain == pytest.approx(0.2, abs=0.02)
    assert {link.link for link in found.links} == {"h0->sw", "sw->h1", "h1->sw", "sw->h0"}
    for link in found.links:
        assert link.jobs == ("a", "b") and link.load == pytest.approx(1.0) and link.lost == pytest.approx(0.2)
        assert link.lost_expected < 0.02


def test_jobs_that_took_turns_by_themselves_gain_nothing() -> None:
    assert abs(predicted(*two_jobs(160)).gain) < 0.02


def test_what_a_paced_job_would_lose_is_simulated_and_the_same_for_the_same_seed() -> None:
    found = predicted(*two_jobs(160, paced=True, jitter=0.03), seed=4)
    assert [job.slowdown_now for job in found.jobs] == [job.slowdown_fair for job in found.jobs]
    assert found.mean_now > 1.02
    assert found == predicted(*two_jobs(160, paced=True, jitter=0.03), seed=4)


def test_jobs_that_share_no_link_are_alone() -> None:
    ring = [pair("a", 10e6, 165, 80)[number] for number in (0, 1)]
    other = job("b", flow("h2", "h3", 10e6), iteration_ms=165, computing_ms=80)
    topology = star(4, 1.0)
    hosts = [record(host, one, topology=topology) for host, one in (("h0", ring[0]), ("h1", ring[1]), ("h2", other))]
    found = predicted(*hosts)
    assert found.mean_expected == 1.0 and not found.links
