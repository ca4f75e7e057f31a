"""Counters are whatever a job writes: nothing that they say may be the end of hostd, nor fill its memory."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.demand.announced import MOST_PIECES, AnnouncedDemand
from paceline.flowcore.demand.demand import Demand
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.demand.launched import LaunchedDemand
from paceline.flowcore.demand.rhythm import MOST_AT_ONCE, IterationRhythm
from paceline.flowcore.demand.timing import JobTiming
from paceline.flowcore.model.patterns import Role
from tests.flowcore.demand.test_announced import NEXT, iterations

OTHER = (Role.RING, "h2")
PIECES, PIECE = 4, 100.0
MOST = 2.0**63

numbers = st.sampled_from([0.0, 0.0, 1.0, PIECE, 2 * PIECE, PIECES * PIECE, MOST])
volumes = st.dictionaries(st.sampled_from([NEXT, OTHER]), numbers, max_size=2)
dates = st.integers(0, 3).map(lambda number: number * 10**9)
whatever = st.builds(
    JobFacts,
    iteration=st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 10**8]),
    announced=st.booleans(),
    counts_early=st.booleans(),
    members=st.integers(0, 3),
    sent_bytes=volumes,
    received_bytes=volumes,
    resting=st.booleans(),
    rested=st.booleans(),
    connections=st.frozensets(st.integers(0, 2)),
    announced_bytes=numbers,
    completed_bytes=numbers,
    outstanding=st.booleans(),
    expected_bytes=numbers,
    waiting_bytes=volumes,
    counted_bytes=numbers,
    marked_bytes=numbers,
    to_send_bytes=numbers,
    launched_bytes=numbers,
    began_ns=dates,
    announced_ns=dates,
    completed_ns=dates,
    moved_ns=dates,
    held=st.booleans(),
    seldom=st.booleans(),
)


def in_pieces(number: int = 6) -> AnnouncedDemand:
    """A job that has joined, each of whose pieces came to its end before the next was announced."""
    demand, sent = AnnouncedDemand("a", "h0"), 0.0
    list(iterations(demand, [PIECES * PIECE] * 2))
    sent = 2 * PIECES * PIECE
    for iteration in range(2, number):
        known = JobFacts(iteration, True, False, 2, {NEXT: sent}, {}, expected_bytes=PIECES * PIECE)
        for piece in range(1, PIECES + 1):
            announced = known._replace(announced_bytes=piece * PIECE, completed_bytes=(piece - 1) * PIECE)
            demand.observe(announced._replace(sent_bytes={NEXT: sent}, outstanding=True))
            sent += PIECE
            gone = announced._replace(completed_bytes=piece * PIECE, sent_bytes={NEXT: sent}, waiting_bytes={NEXT: 0.0})
            demand.observe(gone._replace(resting=True))
        ended = JobFacts(iteration + 1, False, False, 2, {NEXT: sent}, {}, expected_bytes=PIECES * PIECE)
        demand.observe(ended)
    assert demand.in_pieces and demand.paced
    return demand


def whole() -> AnnouncedDemand:
    demand = AnnouncedDemand("a", "h0")
    list(iterations(demand, [PIECES * PIECE] * 3))
    return demand


def fresh() -> AnnouncedDemand:
    return AnnouncedDemand("a", "h0")


def launched() -> LaunchedDemand:
    return LaunchedDemand("a", "h0")


@pytest.mark.parametrize("begun", [in_pieces, whole, fresh, launched])
@given(seen=st.lists(whatever, max_size=12))
def test_no_facts_end_a_demand(begun: Callable[[], Demand], seen: list[JobFacts]) -> None:
    demand = begun()
    for facts in seen:
        demand.observe(facts)
        demand.progress(facts)
        demand.introduce(facts)


@given(seen=st.lists(st.tuples(whatever, st.integers(0, 10**10)), max_size=12))
def test_no_facts_end_the_timing(seen: list[tuple[JobFacts, int]]) -> None:
    timing = JobTiming()
    for facts, now_ns in seen:
        timing.observe(facts, now_ns)
        timing.times()


def test_an_iteration_that_sends_nothing_leaves_nothing_to_divide_by() -> None:
    demand = in_pieces()
    demand.observe(JobFacts(7, False, False, 2, {NEXT: 2400.0}, {}, expected_bytes=0.0))
    demand.observe(JobFacts(7, True, False, 2, {NEXT: 2400.0}, {}, announced_bytes=PIECE, expected_bytes=0.0))
    assert demand.live == {NEXT} and demand.until_bytes(NEXT) == demand.sizes[NEXT]


def test_an_iteration_without_end_is_not_written_down_without_end() -> None:
    demand = in_pieces()
    facts = JobFacts(6, True, False, 2, {NEXT: 2400.0}, {}, expected_bytes=PIECES * PIECE, resting=True)
    for piece in range(10 * MOST_PIECES):
        demand.observe(facts._replace(announced_bytes=piece * PIECE, outstanding=False, waiting_bytes={NEXT: 0.0}))
    assert len(demand._ended_with) <= MOST_PIECES


def test_a_counter_that_leaps_costs_no_time() -> None:
    """Each of the iterations that it claims had an entry of its own, in a list that was sorted once a second."""
    timing = JobTiming()
    for number, at_s in ((3, 1), (4, 2), (10**9, 3), (3, 4), (4, 5), (10**9, 6)):
        timing.observe(JobFacts(number, False, False, 2, {}, {}, began_ns=at_s * 10**9), at_s * 10**9)
    times = timing.times()
    assert times is not None and times.iterations == 2 * (10**9 - 4) + 2
    assert times.fastest_ns == pytest.approx(10**9 / (10**9 - 4)) and times.iteration_ns == pytest.approx(2.0)


def test_a_count_that_leaps_is_no_rhythm() -> None:
    rhythm = IterationRhythm()
    for number in range(20):
        rhythm.observe(number * 1e6, resting=True)
    before = rhythm.iterations
    assert before > 0
    rhythm.observe(MOST, resting=True)
    assert rhythm.iterations <= before + MOST_AT_ONCE and rhythm.size_bytes is None
