"""Times at a switch: who waits for how long, what it has learned by then, and when it forgets."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.allocation.arbiters import BEGUN, max_min_shares
from paceline.flowcore.allocation.shifts.timetable import MEMORY_CYCLES, MOST_JOBS, Timetable
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.arbitration import Arbitration

pytestmark = pytest.mark.slow

LINKS = {"up": 1e9, "down": 1e9, "elsewhere": 1e9}
MS = 1_000_000
STEP_MS = 4


@dataclass
class Job:
    name: str
    compute_ms: int
    burst_ms: int
    links: tuple[str, ...] = ("up", "down")
    late_ms: int = 0  # its first burst
    stops_ms: int = 10**9
    lengthens_ms: int = 0  # its computing, at CHANGE_MS
    stumbles_ms: int = 0  # for so long once, at CHANGE_MS
    ready_ms: int = field(init=False)
    left_ms: float = 0.0  # of its burst, alone
    begun: bool = False
    waits_ms: list[int] = field(default_factory=list)  # of each burst
    ends_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ready_ms = self.late_ms + self.compute_ms

    @property
    def flow(self) -> FlowId:
        return FlowId(self.name, "here", "there", Role.OTHER)

    def claim(self) -> Claim:
        bid = Bid(BEGUN if self.begun else 0.0, self.compute_ms * MS, self.left_ms * MS)
        return Claim(self.flow, self.links, 1e6, bid, 0.0, 0.0, (), ())

    def slowdown(self, last: int = 8) -> float:
        return (self.ends_ms[-1] - self.ends_ms[-1 - last]) / last / (self.compute_ms + self.burst_ms)


CHANGE_MS = 3_000


def run(jobs: list[Job], until_ms: int = 6_000) -> Arbitration:
    """In steps: jobs compute, claim, send at their shares, and withdraw."""
    arbitration = Arbitration(LINKS, max_min_shares, timetable=Timetable(LINKS))
    claiming: set[str] = set()
    for now_ms in range(0, until_ms, STEP_MS):
        for job in jobs:
            if job.name in claiming:
                share = arbitration.shares[job.flow]
                if share.share_bps and not job.begun:
                    job.begun = True
                    job.waits_ms.append(now_ms - STEP_MS - job.ready_ms)
                assert job.begun or share.ceiling_bps == 0.0  # where it waits it may not borrow
                job.left_ms -= STEP_MS * share.share_bps / 1e9
                if job.left_ms <= 0.0:
                    claiming.discard(job.name)
                    arbitration.remove([job.flow])
                    job.ends_ms.append(now_ms)
                    if now_ms > CHANGE_MS and job.lengthens_ms:
                        job.compute_ms, job.lengthens_ms = job.compute_ms + job.lengthens_ms, 0
                    job.ready_ms = now_ms + job.compute_ms // STEP_MS * STEP_MS
                    if now_ms > CHANGE_MS:
                        job.ready_ms, job.stumbles_ms = job.ready_ms + job.stumbles_ms, 0
            elif job.ready_ms <= now_ms < job.stops_ms:
                claiming.add(job.name)
                job.left_ms, job.begun, job.ready_ms = job.burst_ms, False, now_ms
        arbitration.put([job.claim() for job in jobs if job.name in claiming], 0, now_ms * MS)
        arbitration.reallocate(now_ms * MS)
    assert arbitration.peak_ratio <= 1.0 + 1e-9
    return arbitration


def test_two_that_fit_are_set_apart() -> None:
    pair = [Job(name, 200, 100) for name in "ab"]
    run(pair)
    for job in pair:
        assert job.ends_ms[0] == pytest.approx(400, abs=2 * STEP_MS)  # the first bursts meet: nothing is known yet
        assert job.slowdown() < 1.03


def test_times_move_with_a_job_that_is_late() -> None:
    """Jobs that fit exactly: the one that stumbles goes at once, and the other one waits for as long as it stumbled.
    Were it to wait for its next time, that would be 600 ms."""
    late, other = Job("a", 400, 400, stumbles_ms=200), Job("b", 400, 400, late_ms=100)
    run([late, other], until_ms=12_000)
    known = 3  # bursts, by then times are kept to
    assert sum(late.waits_ms[known:]) <= 20 * len(late.waits_ms)
    assert 180 <= max(other.waits_ms[known:]) <= 240
    assert late.slowdown(4) < 1.03 and other.slowdown(4) < 1.03


def test_three_take_turns_on_one_link() -> None:
    trio = [Job(name, 220, 88, late_ms=36 * number) for number, name in enumerate("abc")]
    run(trio)
    assert all(job.slowdown() < 1.06 for job in trio)


def test_a_newcomer_is_fitted_in_and_the_oldest_keeps_its_time() -> None:
    old, new = Job("old", 200, 100), Job("new", 200, 100, late_ms=2_472)
    run([old, new])
    assert max(old.waits_ms) <= 20  # what its iteration was rounded up by
    assert new.slowdown() < 1.04


def test_jobs_that_do_not_fit_are_not_held() -> None:
    pair = [Job(name, 50, 100) for name in "ab"]
    run(pair)
    assert all(set(job.waits_ms) == {0} for job in pair)


def test_a_job_that_has_gone_is_waited_for_no_longer() -> None:
    left, stays = Job("left", 200, 100, stops_ms=2_000), Job("stays", 232, 60)
    run([left, stays])
    assert any(stays.waits_ms)
    forgotten_ms = 2_000 + (MEMORY_CYCLES + 2) * 330
    last = [wait for wait, end in zip(stays.waits_ms, stays.ends_ms, strict=False) if end > forgotten_ms]
    assert len(last) > 5 and not any(last)


def test_a_job_that_changes_gets_other_times() -> None:
    """Held to iterations that it cannot keep, it would miss its time again and again."""
    same, changes = Job("same", 340, 60), Job("changes", 100, 100, lengthens_ms=200)
    run([same, changes], 12_000)
    assert changes.compute_ms == 300
    assert changes.slowdown() < 1.05 and same.slowdown() < 1.05


def test_what_has_begun_elsewhere_is_not_stopped() -> None:
    pair = [Job(name, 200, 100) for name in "ab"]
    arbitration = run(pair)
    arbitration.remove([job.flow for job in pair])
    arbitration.reallocate(6_000 * MS)
    for job in pair:
        job.begun, job.left_ms = True, 60.0
    arbitration.put([job.claim() for job in pair], 0, 6_200 * MS)
    arbitration.reallocate(6_200 * MS)
    assert [arbitration.shares[job.flow].share_bps for job in pair] == [0.5e9, 0.5e9]


def test_a_crowd_is_not_timed() -> None:
    crowd = [Job(f"j{number}", 1900, 100, late_ms=12 * number) for number in range(MOST_JOBS + 1)]
    run(crowd, 8_000)
    assert not any(job.waits_ms[-1] for job in crowd)  # while fewer were known, they had times


PATHS = st.sampled_from([("up",), ("down",), ("up", "down"), ("down", "elsewhere")])


@given(
    st.lists(st.tuples(st.integers(40, 400), st.integers(20, 300), PATHS, st.integers(0, 400)), min_size=1, max_size=4)
)
@settings(max_examples=10, deadline=None)
def test_no_link_is_overfull_and_no_job_is_held_for_longer_than_an_iteration(
    drawn: list[tuple[int, int, tuple[str, ...], int]],
) -> None:
    jobs = [Job(f"j{number}", *one) for number, one in enumerate(drawn)]
    run(jobs, 4_000)
    for job in jobs:
        assert max(job.waits_ms, default=0) <= 1.4 * (job.compute_ms + job.burst_ms) + 2 * STEP_MS
        if all(set(job.links).isdisjoint(other.links) for other in jobs if other is not job):
            assert not any(job.waits_ms)
            assert job.slowdown(1) < 1.0 + 2 * STEP_MS / (job.compute_ms + job.burst_ms)


@pytest.mark.parametrize(
    ("compute_ns", "remaining_ns"), [(1e-3, 1e-9), (1e-300, 1e-300), (1e-3, 1e8), (1e8, 1e-9), (1e17, 1e17)]
)
def test_a_bid_with_odd_numbers_stops_nobody(compute_ns: float, remaining_ns: float) -> None:
    """A period that is rounded to nothing was divided by, at every division from then on."""
    arbitration, odd = Arbitration(LINKS, max_min_shares, timetable=Timetable(LINKS)), Job("odd", 1, 1)
    sound = Job("sound", 100, 50)
    for burst in range(6):
        now_ns = burst * 200 * MS
        strange = odd.claim()._replace(bid=Bid(0.0, compute_ns, remaining_ns))
        sound.left_ms = sound.burst_ms
        arbitration.put([strange, sound.claim()], 0, now_ns)
        arbitration.reallocate(now_ns)
        arbitration.reallocate(now_ns + 100 * MS)
        arbitration.remove([odd.flow, sound.flow])
        arbitration.reallocate(now_ns + 101 * MS)
