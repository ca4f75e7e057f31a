"""The pace of a job: 1 ÷ its mean is the slowdown people see."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.detect.pace import GAIN, MEMORY_ITERATIONS
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy import paceline

MS = 1_000_000


def job(compute_ms: int = 200, comm_ms: int = 200) -> JobProgress:
    """A job that has computed once and now has bytes waiting."""
    progress = JobProgress(0)
    progress.alone_comm_ns = float(comm_ms * MS)
    progress.compute_ended(compute_ms * MS)
    return progress


def iterate(progress: JobProgress, now_ns: int, compute_ms: int, exchange_ms: int) -> int:
    """One iteration from the start of its exchange to the start of the next; counters every 10 ms."""
    for _ in range(exchange_ms // 10):
        now_ns += 10 * MS
        progress.advance(now_ns, 10 / exchange_ms)
    progress.iteration_ended(now_ns, 0.0)
    now_ns += compute_ms * MS
    progress.compute_ended(now_ns)
    return now_ns


@pytest.mark.parametrize(("exchange_ms", "slowdown"), [(200, 1.0), (400, 1.5), (600, 2.0), (1000, 3.0)])
def test_slowdown_is_elapsed_over_alone(exchange_ms: int, slowdown: float) -> None:
    """T⁰ = 0.2 + 0.2 s; whatever the pace of the exchange, the mean over iterations is what people see."""
    progress, now_ns = job(), 200 * MS
    seen = []
    for _ in range(60):
        now_ns = iterate(progress, now_ns, 200, exchange_ms)
        seen.append(progress.slowdown)
    # Read at one point of the cycle: the newest phase weighs a little more than the oldest.
    assert seen[-1] == pytest.approx(slowdown, rel=0.15)
    assert seen[-1] == pytest.approx(seen[-2], rel=1e-3)


def test_half_pace_for_long_is_a_slowdown_of_two() -> None:
    progress, now_ns = job(), 200 * MS
    for _ in range(6000):
        now_ns += 10 * MS
        progress.advance(now_ns, 0.5 * 10 / 200)
    assert progress.slowdown == pytest.approx(2.0, rel=1e-6)


def test_memory_is_so_many_iterations() -> None:
    """After τ without a byte, e⁻¹ of the good past is left."""
    progress = job()
    progress.advance(200 * MS + round(MEMORY_ITERATIONS * 400 * MS), 0.0)
    assert progress.slowdown == pytest.approx(math.e)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_reading_the_counters_more_often_changes_nothing(steps_ms: list[int], pace: float) -> None:
    often, once = job(), job()
    now_ns = 200 * MS
    for step_ms in steps_ms:
        now_ns += step_ms * MS
        often.advance(now_ns, pace * step_ms / 200)
    once.advance(now_ns, pace * sum(steps_ms) / 200)
    assert often.slowdown == pytest.approx(once.slowdown, rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 10**10), st.floats(0.0, 5.0), st.booleans()), min_size=1, max_size=30))
def test_slowdown_stays_between_one_and_a_finite_most(steps: list[tuple[int, float, bool]]) -> None:
    progress, now_ns = job(), 200 * MS
    for elapsed_ns, share, ends in steps:
        now_ns += elapsed_ns
        progress.advance(now_ns, share)
        if ends:
            progress.iteration_ended(now_ns, 0.0)
            progress.compute_ended(now_ns + MS)
        assert 1.0 <= progress.slowdown <= 1000.0 * (1 + 1e-9)


def test_computing_is_full_pace() -> None:
    progress = job()
    progress.advance(1000 * MS, 0.0)
    waited = progress.slowdown
    progress.iteration_ended(1000 * MS, 0.0)
    progress.advance(1500 * MS, 0.0)
    assert 1.0 < progress.slowdown < waited


def test_nothing_is_held_against_a_job_before_anything_is_known() -> None:
    progress = JobProgress(0)
    progress.advance(10**10, 0.0)
    assert progress.slowdown == 1.0


def test_time_that_does_not_pass_teaches_nothing() -> None:
    progress = job()
    before = progress.slowdown
    progress.advance(200 * MS, 0.0)
    progress.advance(100 * MS, 0.0)
    assert progress.slowdown == before


def test_compute_time_is_learned() -> None:
    progress = JobProgress(0)
    progress.compute_ended(100 * MS)
    assert progress.compute_ns == 100 * MS  # the first is believed at once
    progress.iteration_ended(300 * MS, 1.0)
    progress.compute_ended(600 * MS)
    assert progress.compute_ns == pytest.approx((100 + GAIN * 200) * MS)
    now_ns = 600 * MS
    for _ in range(20):  # a new batch size
        now_ns = iterate(progress, now_ns, 300, 100)
    assert progress.compute_ns == pytest.approx(300 * MS, rel=0.01)
    assert progress.alone_ns == progress.compute_ns + progress.alone_comm_ns


def test_a_second_flow_of_the_same_iteration_does_not_end_the_compute_phase_again() -> None:
    progress = job()
    progress.compute_ended(350 * MS)
    assert progress.compute_ns == 200 * MS


def test_the_weight_grows_while_a_job_waits_until_it_is_served() -> None:
    """No starvation: whatever a rival at full pace bids, waiting outbids it in the end."""
    waiting = job(comm_ms=1000)
    rival = Contender("rival", Bid(4.0, 1e9, 5e7), {"link": 1})
    slowdowns, rates = [], []
    for now_ms in range(200, 60_000, 60):
        waiting.advance(now_ms * MS, 0.0)
        bid = Bid(waiting.slowdown, waiting.compute_ns, waiting.alone_comm_ns)
        slowdowns.append(waiting.slowdown)
        rates.append(paceline.arbitrate([Contender("waits", bid, {"link": 1}), rival], {"link": 1e9})[0])
    served = rates.index(1e9)
    assert rates[0] == 0.0
    assert all(rate == 1e9 for rate in rates[served:])
    assert all(a < b for a, b in pairwise(slowdowns[:served]))
