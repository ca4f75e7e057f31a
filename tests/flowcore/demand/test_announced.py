"""What a job does, told from its counters alone."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.demand.announced import AGAIN_ITERATIONS, AnnouncedDemand
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, IterationEnded, JobJoined, JobLeft
from paceline.flowcore.model.patterns import FlowId, Role

NEXT = (Role.RING, "h1")
FLOW = FlowId("a", "h0", "h1", Role.RING)


def iterations(
    tracker: AnnouncedDemand, sizes: list[float], sent: float = 0.0, first: int = 0, steps: int = 4
) -> Iterator[HostEvent]:
    """A ring's iterations: announced, sent in steps, ended."""
    for number, size in enumerate(sizes, start=first):
        for step in range(steps + 1):
            there = sent + size * step / steps
            yield from tracker.observe(JobFacts(number, True, False, 2, {NEXT: there}, {NEXT: there}))
        sent += size
        yield from tracker.observe(JobFacts(number + 1, False, False, 2, {NEXT: sent}, {NEXT: sent}))


def test_a_job_that_says_how_many_iterations_it_will_do_joins_with_what_is_left_of_them() -> None:
    for said, left in ((0, 0), (100, 98), (1, 0)):
        tracker = AnnouncedDemand("a", "h0")
        tracker.iterations = said
        joined = [event for event in iterations(tracker, [50.0, 100.0]) if isinstance(event, JobJoined)]
        assert [event.iterations for event in joined] == [left]


def test_a_job_joins_after_its_first_whole_iteration() -> None:
    tracker = AnnouncedDemand("a", "h0")
    assert list(iterations(tracker, [50.0])) == [], "its connections had yet to be found"
    [joined] = iterations(tracker, [100.0], sent=50.0, first=1)
    assert tracker.sizes == {NEXT: 100.0}
    assert isinstance(joined, JobJoined)
    [spec] = joined.flows
    assert spec.flow == FLOW and spec.upstream == (FlowId("a", "h1", "h0", Role.RING),)
    assert spec.window_bytes == 50.0, "half of the model, which is what a ring of two sends"
    assert joined.downstream == ((FLOW, spec.upstream),)


def test_the_first_iteration_counts_if_its_connections_were_known_when_it_began() -> None:
    tracker = AnnouncedDemand("a", "h0")
    tracker.observe(JobFacts(0, False, False, 2, {}, {}))
    tracker.observe(JobFacts(0, False, False, 2, {NEXT: 30.0}, {}))  # it was set up
    list(iterations(tracker, [100.0], sent=30.0))
    assert tracker.sizes == {NEXT: 100.0}
    late = AnnouncedDemand("a", "h0")
    late.observe(JobFacts(0, False, False, 2, {}, {}))
    list(iterations(late, [100.0], sent=30.0))
    assert late.sizes == {}, "it is not known what was sent before the connection was found"


def test_a_first_iteration_that_was_not_seen_whole() -> None:
    """What a connection sent until it was found is not known."""
    tracker = AnnouncedDemand("a", "h0")
    known = JobFacts(0, False, False, 2, {NEXT: 0.0}, {}, connections=frozenset({1}))
    tracker.observe(known)
    then = known._replace(iteration=1, sent_bytes={NEXT: 60.0}, connections=frozenset({1, 2}))
    assert tracker.observe(then) == []
    [joined] = tracker.observe(then._replace(iteration=2, sent_bytes={NEXT: 160.0}))
    assert [spec.size_bytes for spec in joined.flows] == [100.0]


def test_an_iteration_is_ready_done_ended_once_each() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [100.0] * 4))
    events = list(iterations(tracker, [100.0, 100.0], sent=400.0, first=4))
    one = [FlowReady(FLOW, 4), FlowDone(FLOW), IterationEnded("a")]
    assert events == [*one, FlowReady(FLOW, 5), *one[1:]]


def test_only_live_flows_are_idle() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [100.0] * 4))
    nothing_waits = JobFacts(4, False, True, 2, {NEXT: 400.0}, {}, waiting_bytes={NEXT: 0.0})
    tracker.observe(nothing_waits)
    assert tracker.idle(nothing_waits) == [], "it computes"
    sending = nothing_waits._replace(announced=True, sent_bytes={NEXT: 410.0})
    tracker.observe(sending)
    assert tracker.idle(sending) == [FLOW]
    assert tracker.idle(sending._replace(waiting_bytes={NEXT: 1.0})) == []


def test_sizes_are_learned_anew_when_they_change_for_good() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [100.0] * 4))
    odd = list(iterations(tracker, [140.0, 100.0], sent=400.0, first=4))
    assert not any(isinstance(event, JobJoined) for event in odd), "a lone odd iteration changes nothing"
    changed = list(iterations(tracker, [140.0, 140.0], sent=640.0, first=6))
    assert isinstance(changed[-1], JobJoined) and tracker.sizes == {NEXT: 140.0}


def test_sizes_that_never_agree_become_their_median() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [1.0, 50.0, 100.0, 200.0, 300.0, 150.0, 250.0]))
    assert tracker.sizes == {NEXT: 200.0}


def test_flows_within_control_traffic_are_left_out() -> None:
    tracker = AnnouncedDemand("a", "h0")
    store = (Role.RING, "h2")
    for number in range(6):
        tracker.observe(JobFacts(number, False, False, 3, {NEXT: 1e6 * number, store: 10.0 * number}, {}))
    assert set(tracker.sizes) == {NEXT}


def test_a_job_that_leaves_says_so_once() -> None:
    tracker = AnnouncedDemand("a", "h0")
    assert tracker.left() == [], "it had never joined"
    list(iterations(tracker, [100.0] * 4))
    assert tracker.left() == [JobLeft("a")] and tracker.left() == []


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 1e9)), max_size=60))
def test_whatever_the_counters_do_flows_begin_before_they_end(steps: list[tuple[int, bool, float]]) -> None:
    tracker, live, iteration, sent = AnnouncedDemand("a", "h0"), set(), 0, 0.0
    for passed, announced, more in steps:
        iteration, sent = iteration + passed, sent + more
        facts = JobFacts(iteration, announced, False, 2, {NEXT: sent}, {})
        for event in tracker.observe(facts):
            if isinstance(event, FlowReady):
                assert event.flow not in live
                live.add(event.flow)
            elif isinstance(event, FlowDone):
                live.remove(event.flow)
        assert dict(tracker.progress(facts)).keys() == live
        assert all(0 <= done <= tracker.sizes[NEXT] for _, done in tracker.progress(facts))


def test_what_is_left_of_a_flow_is_sent_in_its_turn_and_one_that_rests_has_nothing_left() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [100.0] * 4))
    facts = JobFacts(4, True, False, 2, {NEXT: 499.0}, {})
    assert tracker.observe(facts) == [FlowReady(FLOW, 4)], "one of a hundred is left"
    assert tracker.observe(facts) == []
    assert tracker.observe(facts._replace(resting=True)) == [FlowDone(FLOW)], "it was never there"


def test_an_iteration_whose_end_is_seen_late_ended_where_its_flow_rested() -> None:
    """The counter moves with the next iteration's first bytes, and ten of those have been sent by then."""
    tracker = AnnouncedDemand("a", "h0")
    for number in range(8):
        sent = 100.0 * number
        tracker.observe(JobFacts(number, True, False, 2, {NEXT: sent + 10.0}, {}))
        tracker.observe(JobFacts(number, True, False, 2, {NEXT: sent + 100.0}, {}))
        tracker.observe(JobFacts(number, True, False, 2, {NEXT: sent + 100.0}, {}, resting=True))
    assert tracker.sizes == {NEXT: 100.0}
    events = tracker.observe(JobFacts(8, True, False, 2, {NEXT: 810.0}, {}))
    assert events == [IterationEnded("a"), FlowReady(FLOW, 8)]
    assert tracker.progress(JobFacts(8, True, False, 2, {NEXT: 820.0}, {})) == [(FLOW, 20.0)]


def piece(number: int, announced: float, sent: float, *, done: bool, idle: bool = True) -> JobFacts:
    """A job with pieces of 25 that it waits for, one after the other."""
    return JobFacts(
        number,
        announced > 0,
        False,
        2,
        {NEXT: sent},
        {},
        announced_bytes=announced,
        completed_bytes=announced - (0 if done else 25.0),
        outstanding=not done,
        expected_bytes=100.0,
        waiting_bytes={NEXT: 0.0 if idle else 1.0},
    )


def in_pieces(tracker: AnnouncedDemand, number: int) -> list[HostEvent]:
    events: list[HostEvent] = []
    for announced in (25.0, 50.0, 75.0, 100.0):
        sent = 100.0 * number + announced
        events += tracker.observe(piece(number, announced, sent - 20, done=False, idle=False))
        events += tracker.observe(piece(number, announced, sent, done=True))
    return events + tracker.observe(piece(number + 1, 0.0, 100.0 * (number + 1), done=True))


def test_pieces_that_come_to_their_end_one_by_one_are_bursts_of_their_own() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    events = in_pieces(tracker, 4)
    ready = [event for event in events if isinstance(event, FlowReady)]
    assert [event.until_bytes for event in ready[:3]] == [25.0, 50.0, 75.0] and ready[3] == FlowReady(FLOW, 4)
    assert [type(event) for event in events] == [FlowReady, FlowDone] * 4 + [IterationEnded]


def test_between_pieces_nothing_is_live_and_more_is_to_come() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    tracker.observe(piece(4, 25.0, 405.0, done=False, idle=False))
    assert tracker.live and not tracker.between_bursts
    tracker.observe(piece(4, 25.0, 410.0, done=True))
    assert not tracker.live, "the call has come to its end and nothing waits: the piece was smaller than its part"
    assert tracker.between_bursts


def test_a_piece_that_is_announced_before_the_last_is_out_makes_the_burst_grow() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    assert tracker.observe(piece(4, 25.0, 405.0, done=False)) == [FlowReady(FLOW, 4, 25.0)]
    assert tracker.observe(piece(4, 50.0, 410.0, done=False)) == [FlowReady(FLOW, 4, 50.0)]
    assert tracker.observe(piece(4, 50.0, 450.0, done=False)) == [FlowDone(FLOW)]


def test_buckets_that_are_waited_for_together_are_one_burst() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [100.0] * 4))
    events: list[HostEvent] = []
    for announced in (25.0, 50.0, 75.0, 100.0):
        facts = piece(4, announced, 400.0 + announced, done=False)._replace(completed_bytes=0.0)
        events += tracker.observe(facts)
    assert events == [FlowReady(FLOW, 4), FlowDone(FLOW)]


def test_an_end_seen_late_with_pieces_of_the_next_iteration_sent_teaches_no_size() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    for number in range(4, 8):
        for announced in (50.0, 100.0):
            tracker.observe(piece(number, announced, 100.0 * number + announced, done=True))
        tracker.observe(piece(number + 1, 25.0, 100.0 * (number + 1) + 25.0, done=True))
    assert tracker.sizes == {NEXT: 100.0}
    assert tracker.observe(piece(8, 50.0, 830.0, done=False)) == [FlowReady(FLOW, 8, 50.0)]
    assert tracker.progress(piece(8, 50.0, 830.0, done=False)) == [(FLOW, 30.0)]


def test_a_piece_that_rests_is_over_and_there_again_when_it_moves() -> None:
    """In a backward pass a call's end is counted with the next call."""
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    tracker.observe(piece(4, 25.0, 405.0, done=False, idle=False))
    resting = piece(4, 25.0, 412.0, done=False)._replace(resting=True)
    assert tracker.observe(resting) == [FlowDone(FLOW)]
    assert tracker.observe(resting) == []
    assert tracker.observe(piece(4, 25.0, 416.0, done=False)) == [FlowReady(FLOW, 4, 25.0)]


def test_a_few_bytes_that_come_to_their_end_first_are_no_piece() -> None:
    """The loss, summed up before the backward pass: DDP waits for all of its buckets nevertheless."""
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [50.0, 100.0]))
    loss = piece(2, 0.1, 150.1, done=True)._replace(announced=False)
    assert tracker.observe(loss) == [] and not tracker.in_pieces
    first = piece(2, 25.0, 150.1, done=False)._replace(completed_bytes=0.1)
    assert tracker.observe(first) == [FlowReady(FLOW, 2)], "to the end of the iteration"


def test_how_much_a_piece_sends_is_learned() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(6):
        for announced, sent in ((25.0, 10.0), (50.0, 20.0), (75.0, 60.0), (100.0, 100.0)):
            base = 100.0 * number
            events = tracker.observe(piece(number, announced, base + sent - 5, done=False, idle=False))
            tracker.observe(piece(number, announced, base + sent, done=True))
            tracker.observe(piece(number, announced, base + sent, done=True)._replace(resting=True))
            if number == 5 and announced < 100:
                assert events == [FlowReady(FLOW, 5, sent)]
        tracker.observe(piece(number + 1, 0.0, 100.0 * (number + 1), done=True))


def test_a_piece_that_has_not_moved_yet_has_not_come_to_rest() -> None:
    tracker = AnnouncedDemand("a", "h0")
    for number in range(4):
        in_pieces(tracker, number)
    computed = piece(4, 25.0, 400.0, done=False)._replace(resting=True)  # nothing has moved since the last iteration
    assert tracker.observe(computed) == [FlowReady(FLOW, 4, 25.0)] and tracker.observe(computed) == []


def test_a_job_of_which_no_piece_is_worth_a_turn_is_left_to_tcp_until_it_sends_other_sizes() -> None:
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    events = [event for number in range(8) for event in in_pieces(tracker, number)]
    assert [type(event) for event in events if isinstance(event, JobJoined | JobLeft)] == [JobJoined, JobLeft]
    assert not tracker.paced and tracker.left_to_tcp and not tracker.live
    again = list(iterations(tracker, [300.0, 300.0, 300.0], sent=800.0, first=8))
    assert any(isinstance(event, JobJoined) for event in again) and tracker.paced
    worth_it = AnnouncedDemand("a", "h0", least_bytes=20.0)
    events = [event for number in range(8) for event in in_pieces(worth_it, number)]
    assert worth_it.paced and not any(isinstance(event, JobLeft) for event in events)


@pytest.mark.parametrize(("seen", "paced"), [((10.0,) * 6 + (40.0,), False), ((5.0,) * 8 + (60.0,), True)])
def test_a_job_is_left_to_tcp_by_where_half_of_its_bytes_are(seen: tuple[float, ...], paced: bool) -> None:
    """Pieces that a late look saw as one make no turn worth it, nor do short ones make a long one not worth it."""
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    for number in range(8):
        in_pieces(tracker, number) if number < 2 else None
        announced = 0.0
        for size in seen if number >= 2 else ():
            announced += size
            sent = 100.0 * number + announced
            tracker.observe(piece(number, announced, sent - size, done=False, idle=False))
            tracker.observe(piece(number, announced, sent, done=True))
        tracker.observe(piece(number + 1, 0.0, 100.0 * (number + 1), done=True))
    assert tracker.paced is paced


def test_pieces_of_a_job_that_is_left_to_tcp_are_remembered() -> None:
    """Nobody looks for them then, and a look that finds more announced is late as before."""
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    for number in range(8):
        in_pieces(tracker, number)
    list(iterations(tracker, [100.0] * 10, sent=800.0, first=8))
    assert tracker.left_to_tcp and tracker.in_pieces


@pytest.mark.parametrize(("least_bytes", "joins"), [(11.0, False), (9.0, True)])
def test_a_job_that_was_left_to_tcp_while_looks_were_seldom_joins_again(least_bytes: float, joins: bool) -> None:
    """What is worth a turn hangs on how often hostd looks; half of its bytes are in pieces of 20."""
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    for number in range(8):
        in_pieces(tracker, number)
    assert tracker.left_to_tcp
    tracker.least_bytes = least_bytes
    events = [event for number in range(8, 8 + AGAIN_ITERATIONS) for event in in_pieces(tracker, number)]
    assert any(isinstance(event, JobJoined) for event in events) is joins is tracker.paced


def test_a_job_that_is_left_to_tcp_again_and_again_joins_ever_more_seldom() -> None:
    """Its pieces are worth a turn as long as hostd does not look at them."""
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    joined_at = []
    for number in range(15 * AGAIN_ITERATIONS):
        events = in_pieces(tracker, number)
        joined_at += [number for event in events if isinstance(event, JobJoined)]
        tracker.least_bytes = 30.0 if tracker.paced else 9.0
    waits = [after - before for before, after in pairwise(joined_at)]
    assert [round(wait / AGAIN_ITERATIONS) for wait in waits] == [1, 2, 4]


def test_of_a_job_that_is_left_to_tcp_a_sample_lies_between_two_looks_in_time() -> None:
    tracker = AnnouncedDemand("a", "h0", least_bytes=30.0)
    for number in range(8):
        in_pieces(tracker, number)
    events, sent = [], 800.0
    for number in range(9, 29):  # of 110 bytes, and every other look comes when 20 of the next have been sent
        sent += 110.0
        late = number % 2 == 0
        events += tracker.observe(piece(number, 25.0 if late else 0.0, sent + 20.0 * late, done=True))
    assert tracker.sizes == {NEXT: 100.0} and not any(isinstance(event, JobJoined) for event in events)
    for number in range(29, 32):
        sent += 110.0
        tracker.observe(piece(number, 0.0, sent, done=True))
    assert tracker.sizes == {NEXT: 110.0}


def test_looks_that_are_far_apart_teach_no_sizes() -> None:
    tracker = AnnouncedDemand("a", "h0")
    list(iterations(tracker, [50.0, 100.0]))
    assert tracker.sizes == {NEXT: 100.0}
    for number in range(3, 9):  # each comes in the middle of the next iteration's burst, and the sums say 130
        sent = {NEXT: 20.0 + 130.0 * (number - 2)}
        events = tracker.observe(JobFacts(number, True, False, 2, sent, {}, seldom=True))
        assert not any(isinstance(event, JobJoined) for event in events)
    assert tracker.sizes == {NEXT: 100.0}
