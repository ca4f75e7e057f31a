"""How long iterations take, and how much of them a job computes."""

import pytest

from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.demand.timing import WARM_UP_ITERATIONS, IterationTimes, JobTiming

MS = 1_000_000
HOSTD_NS = 10**15  # hostd's clock is not the shim's


def facts(iteration: int, **dates: object) -> JobFacts:
    return JobFacts(iteration, False, False, 2, {}, {})._replace(**dates)  # type: ignore[arg-type]


class Ring:
    """Computes, announces, sends; `look` is what hostd sees of it."""

    def __init__(self) -> None:
        self.timing = JobTiming()
        self.now_ns = self.iteration = 0
        self.began_ns = self.announced_ns = self.completed_ns = 5 * MS
        self.outstanding = self.early = False
        self.moved_ns = 0

    def look(self, closely: bool = True) -> None:
        seen = facts(
            self.iteration, began_ns=self.began_ns, announced_ns=self.announced_ns, completed_ns=self.completed_ns,
            outstanding=self.outstanding, counts_early=self.early,
            moved_ns=HOSTD_NS + self.moved_ns if self.moved_ns else 0,
        )  # fmt: skip
        self.timing.observe(seen, HOSTD_NS + self.now_ns, closely)

    def wait(self, ms: float, closely: bool = True) -> None:
        """In looks of 2 ms, or of 50."""
        until_ns, look_ns = self.now_ns + round(ms * MS), (2 if closely else 50) * MS
        while self.now_ns < until_ns:
            self.now_ns = min(until_ns, self.now_ns + look_ns)
            self.look(closely)

    def announce(self) -> None:
        self.announced_ns, self.outstanding = self.now_ns, True

    def complete(self) -> None:
        self.completed_ns, self.outstanding = self.now_ns, False

    def end(self) -> None:
        self.iteration, self.began_ns = self.iteration + 1, self.now_ns

    def iterate(self, compute_ms: float, send_ms: float, tail_ms: float = 0.0, closely: bool = True) -> None:
        self.wait(compute_ms, closely)
        self.announce()
        self.wait(send_ms, closely)
        self.complete()
        self.wait(tail_ms, closely)
        self.end()

    def times(self) -> IterationTimes:
        found = self.timing.times()
        assert found is not None
        return found


def warmed_up() -> Ring:
    ring = Ring()
    for _ in range(WARM_UP_ITERATIONS):
        ring.iterate(500, 500)
    assert ring.timing.times() is None
    return ring


def test_computing_is_from_the_end_of_an_exchange_to_the_announcement_whatever_the_exchange_takes() -> None:
    ring = warmed_up()
    for send_ms in (100, 250, 100, 180):
        ring.iterate(40, send_ms, tail_ms=7)
    ring.look()
    times = ring.times()
    assert times.iterations == 4
    assert times.iteration_ns == pytest.approx((40 + 7 + 157.5) * MS)
    assert times.fastest_ns == pytest.approx(147 * MS)
    assert times.computing_ns == 40 * MS and times.bursts == 1 and times.beside_ns == 0
    assert times.jitter == 0


def test_slow_looks_time_iterations_exactly_and_leave_the_rest_to_close_ones() -> None:
    ring = warmed_up()
    for _ in range(4):
        ring.iterate(33, 91, closely=False)
    ring.wait(20, closely=False)
    assert ring.times().iteration_ns == 124 * MS and ring.times().computing_ns is None
    for _ in range(5):
        ring.iterate(33, 91)
    ring.look()
    assert ring.times().computing_ns == 33 * MS
    for _ in range(9):
        ring.iterate(60, 40, closely=False)
    assert ring.times().computing_ns == 33 * MS, "as it was last seen"


def test_bursts_of_an_iteration_are_counted_and_their_computing_added_up() -> None:
    ring = warmed_up()
    for _ in range(4):
        for _ in range(3):
            ring.wait(20)
            ring.announce()
            ring.wait(30)
            ring.complete()
        ring.end()
    ring.look()
    times = ring.times()
    assert (times.bursts, times.computing_ns) == (3, 60 * MS)


def test_between_bursts_a_job_waits_for_what_the_kernel_has_yet_to_send() -> None:
    ring = warmed_up()
    for _ in range(4):
        for _ in range(2):
            ring.wait(20)
            ring.announce()
            ring.wait(20)
            ring.complete()
            for _ in range(5):
                ring.wait(2)
                ring.moved_ns = ring.now_ns
        ring.end()
    ring.look()
    times = ring.times()
    assert (times.bursts, times.computing_ns) == (2, pytest.approx(40 * MS, abs=2 * MS))


def test_what_is_announced_while_bytes_travel_is_computed_beside_them() -> None:
    ring = warmed_up()
    for _ in range(4):
        ring.wait(20)
        ring.announce()
        ring.wait(10)
        ring.announce()
        ring.wait(15)
        ring.announce()
        ring.wait(30)
        ring.complete()
        ring.end()
    ring.look()
    times = ring.times()
    assert (times.bursts, times.computing_ns, times.beside_ns) == (1, 20 * MS, 25 * MS)


def test_a_counter_that_moves_with_the_next_first_bytes_hides_no_computing() -> None:
    ring = warmed_up()
    for _ in range(5):
        ring.wait(30)  # after the pulls have come
        ring.end()
        ring.announce()
        ring.wait(50)
        ring.complete()
    ring.wait(4)
    assert ring.times().computing_ns == 30 * MS


def test_a_job_without_dates_computes_while_nothing_moves() -> None:
    timing, now_ns, moved_ns = JobTiming(), HOSTD_NS, HOSTD_NS
    for iteration in range(WARM_UP_ITERATIONS + 6):
        for step in range(50):  # 60 ms of computing, 40 of sending
            now_ns += 2 * MS
            moved_ns = now_ns if step >= 30 else moved_ns
            timing.observe(facts(iteration, moved_ns=moved_ns), now_ns)
    times = timing.times()
    assert times is not None and times.iteration_ns == pytest.approx(100 * MS)
    assert times.computing_ns == pytest.approx(60 * MS, abs=2 * MS)


def test_iterations_since_a_moment_and_of_a_job_that_restarts() -> None:
    ring = warmed_up()
    for _ in range(4):
        ring.iterate(40, 100)
    ring.look()
    half_ns = HOSTD_NS + ring.now_ns + 1
    for _ in range(2):
        ring.iterate(40, 300)
    ring.look()
    lately = ring.timing.times(half_ns)
    assert lately is not None and lately.iterations == 2 and lately.iteration_ns == 340 * MS
    assert ring.timing.times(HOSTD_NS + ring.now_ns + 1) is None
    ring.iteration = 0
    ring.wait(1000)
    ring.iterate(40, 100)
    ring.look()
    assert ring.times().iterations == 6, "the first ones of the new run are its warm-up"
