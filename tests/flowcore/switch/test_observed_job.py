"""How far a switch believes a bid: by what it has given the job itself."""

import pytest

from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.switch.observed_job import COMPUTE_MARGIN, REMAINING_MARGIN, URGENCY_MARGIN, ObservedJob

LIE = Bid(1e12, 1e12, 0.0)


def after(
    iterations: int, given: float, burst_s: float = 0.2, compute_s: float = 0.1, first_burst_s: float = 0.2
) -> ObservedJob:
    """A job that was given this part of its best rate in every burst."""
    job, now_s, step_s = ObservedJob(), 0.0, 0.01
    for n in range(iterations):
        job.came(round(now_s * 1e9))
        for _ in range(round((burst_s if n else first_burst_s) / given / step_s)):
            job.advance(step_s, given)
            now_s += step_s
        job.left(round(now_s * 1e9))
        for _ in range(round(compute_s / step_s)):
            job.advance(step_s, None)
            now_s += step_s
    return job


def test_a_job_that_had_all_it_could_use_is_not_urgent() -> None:
    assert after(10, given=1.0).believed(LIE).urgency == pytest.approx(URGENCY_MARGIN)


def test_a_job_at_half_of_its_rate_is_as_urgent_as_it_is_slow() -> None:
    slowdown = (0.1 + 0.4) / (0.1 + 0.2)
    assert after(40, given=0.5).believed(LIE).urgency == pytest.approx(URGENCY_MARGIN * slowdown, rel=0.15)


def test_times_are_believed_up_to_what_was_measured() -> None:
    bid = after(10, given=0.5).believed(LIE)
    assert bid.compute_ns == pytest.approx(COMPUTE_MARGIN * 0.1e9, rel=0.01)
    assert bid.remaining_ns == pytest.approx(REMAINING_MARGIN * 0.2e9, rel=0.01)


def test_an_honest_bid_is_believed() -> None:
    honest = Bid(1.02, 0.1e9, 0.2e9)
    assert after(10, given=1.0).believed(honest) == honest


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_a_first_claim_that_a_fault_drew_out_is_no_burst(iterations: int) -> None:
    honest = Bid(1.0, 0.1e9, 0.2e9)
    assert after(iterations, given=1.0, first_burst_s=0.6).believed(honest) == honest


def test_of_bursts_that_differ_the_shortest_counts() -> None:
    """FSDP has long ones and short ones, and a burst that others lend to needs less of its own."""
    job = after(3, given=1.0, burst_s=0.2)
    job.came(round(0.9e9))
    job.advance(0.05, 1.0)
    job.left(round(0.95e9))
    job.came(round(1.05e9))
    assert job.believed(LIE).remaining_ns == pytest.approx(REMAINING_MARGIN * 0.05e9)


def test_a_claim_that_comes_again_soon_goes_on_with_its_burst() -> None:
    """Its host had foreseen another end: what is left is not a whole burst."""
    job = after(10, given=1.0)
    job.came(round(3e9))
    job.advance(0.19, 1.0)
    job.left(round(3.19e9))
    job.came(round(3.22e9), soon_ns=0.06e9)
    assert job.believed(LIE).remaining_ns == pytest.approx(REMAINING_MARGIN * 0.01e9, rel=0.01)
    assert job.believed(LIE).compute_ns == pytest.approx(COMPUTE_MARGIN * 0.1e9, rel=0.01), "it did not compute"


def test_a_job_that_computes_shortly_comes_with_its_next_burst() -> None:
    """Else a job that lies would have no burst before it, ever."""
    job = after(10, given=1.0, compute_s=0.03)
    job.came(round(10 * 0.23e9), soon_ns=0.06e9)
    assert job.believed(LIE).remaining_ns == pytest.approx(REMAINING_MARGIN * 0.2e9, rel=0.01)
