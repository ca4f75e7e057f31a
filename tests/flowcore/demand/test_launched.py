"""What a NCCL job has to send, told from what moves: its counter runs ahead of the network."""

from collections.abc import Iterator

import pytest

from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.demand.launched import LaunchedDemand
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, IterationEnded, JobJoined
from paceline.flowcore.model.patterns import FlowId, Role

NEXT = (Role.RING, "h1")
FLOW = FlowId("a", "h0", "h1", Role.RING)
EMPTY = {NEXT: 0.0}  # sockets


class Job:
    """Iterations of one burst, or of several with rests between them."""

    def __init__(self, ahead: int = 1) -> None:
        self.demand = LaunchedDemand("a", "h0")
        self.counter, self.sent, self.ahead = ahead, 0.0, ahead
        list(self.looks())

    def looks(self, *, resting: bool = True, rested: bool = False, waiting: float = 0.0) -> Iterator[HostEvent]:
        facts = JobFacts(self.counter, True, True, 2, {NEXT: self.sent}, {}, resting=resting, rested=rested)
        facts = facts._replace(waiting_bytes={NEXT: waiting})
        yield from self.demand.observe(facts)

    def iterate(self, *bursts: float) -> list[HostEvent]:
        events = []
        for number, size in enumerate(bursts):
            for step in range(10):
                self.sent += size / 10
                if number == 0 and step == 3:
                    self.counter += 1  # launched while the network is busy
                events += list(self.looks(resting=False))
            events += list(self.looks())
        return events


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_burst_begins_with_its_bytes_and_ends_with_its_size(ahead: int) -> None:
    job = Job(ahead)
    joined = [event for _ in range(3) for event in job.iterate(100.0) if isinstance(event, JobJoined)]
    assert [spec.size_bytes for event in joined for spec in event.flows] == [100.0]
    assert joined[0].flows[0].upstream == (), "hosts count their own iterations"
    first = job.iterate(100.0)
    assert [type(event) for event in first] == [FlowReady, FlowDone, IterationEnded]
    assert all(job.iterate(100.0)[0] == FlowReady(FLOW, first[0].iteration + number) for number in (1, 2))


def test_bursts_of_an_iteration_are_told_apart_once_they_repeat() -> None:
    job = Job()
    for _ in range(6):
        events = job.iterate(30.0, 50.0, 20.0)
    flow, ready = job.demand.sizes[NEXT], [event for event in events if isinstance(event, FlowReady)]
    until = [0.0, *sorted(min(event.until_bytes, flow) for event in ready)]
    assert sorted(round(until[number + 1] - until[number]) for number in range(3)) == [20, 30, 50]
    assert [type(event) for event in events if not isinstance(event, IterationEnded)] == [FlowReady, FlowDone] * 3


def test_a_burst_that_waits_in_the_middle_goes_on() -> None:
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    events = job.iterate(40.0)
    assert [type(event) for event in events] == [FlowReady]
    job.counter -= 1  # `iterate` counted one
    assert [type(event) for event in job.iterate(60.0)] == [FlowDone, IterationEnded]


def test_an_iteration_that_was_smaller_ends_when_two_more_are_launched() -> None:
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    events = job.iterate(40.0)
    job.counter += 1
    events += list(job.looks())
    assert [type(event) for event in events] == [FlowReady, FlowDone, IterationEnded]
    assert [type(event) for event in job.iterate(100.0)] == [FlowReady, FlowDone, IterationEnded], (
        "from here on as before"
    )


def test_a_flow_held_by_its_limit_has_not_come_to_rest() -> None:
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    job.sent += 50.0
    list(job.looks(resting=False))
    held = JobFacts(job.counter + 5, True, True, 2, {NEXT: job.sent}, {}, resting=True)
    assert job.demand.observe(held) == [] and job.demand.live == {NEXT}


def test_a_job_that_does_not_rest_at_a_stop_goes_on_to_the_end() -> None:
    job = Job()
    for _ in range(6):
        job.iterate(30.0, 70.0)
    assert job.demand.profile.stops
    events = job.iterate(100.0)
    assert [type(event) for event in events] == [FlowReady, FlowDone, IterationEnded, FlowReady, FlowDone]


def test_an_iteration_whose_last_bytes_came_unseen_ends_with_the_next_rest() -> None:
    job = Job()
    for _ in range(6):
        job.iterate(30.0, 70.0)
    job.sent += 30.0  # its iterations end there: where the counter has moved
    assert [type(event) for event in job.looks(resting=True)] == [IterationEnded]


def test_a_burst_is_seen_whose_job_rested_between_two_looks() -> None:
    """hostd looks seldom while a job computes, and may come when the next burst has begun."""
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    job.counter += 1
    events = []
    for _ in range(2):
        job.sent += 50.0
        events += list(job.looks(resting=False))
    assert [type(event) for event in events] == [FlowReady, FlowDone, IterationEnded]
    job.sent += 3.0
    assert [type(event) for event in job.looks(resting=False, rested=True)] == [FlowReady]


def test_a_burst_that_cannot_begin_beside_another_jobs_waits() -> None:
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    assert list(job.looks(waiting=0.3)) == [], "it may be about to go"
    assert [type(event) for event in job.looks(waiting=0.3)] == [FlowReady], "although nothing moves"


def test_what_is_sent_before_a_pass_is_no_burst_that_waits() -> None:
    job = Job()
    for _ in range(4):
        job.iterate(100.0)
    assert [*job.looks(waiting=0.1), *job.looks(waiting=0.1)] == []


def test_in_the_middle_of_an_iteration_the_first_bytes_are_the_next_burst() -> None:
    """Beside another job's burst hardly more than those can move."""
    job = Job()
    for _ in range(6):
        job.iterate(90.0, 10.0)
    assert job.demand.profile.stops and not job.demand.live
    job.sent += 0.1
    assert [type(event) for event in job.looks(resting=False)] == [FlowReady]


def held_at_the_gate(job: Job, *, held: bool) -> list[HostEvent]:
    facts = JobFacts(job.counter, True, True, 2, {NEXT: job.sent}, {}, resting=True, waiting_bytes=EMPTY, held=held)
    return job.demand.observe(facts)


def test_a_launch_that_waits_at_the_gate_is_a_burst_that_waits() -> None:
    job = Job(ahead=0)
    for _ in range(4):
        last = job.iterate(100.0)
    assert isinstance(last[0], FlowReady)
    assert held_at_the_gate(job, held=True) == [FlowReady(FLOW, last[0].iteration + 1)]
    assert held_at_the_gate(job, held=True) == [] and job.demand.live == {NEXT}
    for _ in range(3):
        assert held_at_the_gate(job, held=False) == [], "let go, and nothing has moved yet"
    assert [type(event) for event in job.iterate(100.0)] == [FlowDone, IterationEnded]
    assert job.demand.profile.stops == []


def test_a_launch_that_waits_ends_the_iteration_before_which_sent_less_than_its_size() -> None:
    job = Job(ahead=0)
    for _ in range(4):
        job.iterate(100.0)
    events = job.iterate(40.0) + held_at_the_gate(job, held=True)
    assert [type(event) for event in events] == [FlowReady, FlowDone, IterationEnded, FlowReady]
    assert [type(event) for event in job.iterate(100.0)] == [FlowDone, IterationEnded], "of all its bytes"


class CountedJob(Job):
    """Launches an iteration and marks it, sends it, computes; the plugin counts what it sends."""

    def __init__(self) -> None:
        self.marked = self.found_late = 0.0
        super().__init__(ahead=0)

    def looks(self, *, resting: bool = True, rested: bool = False, waiting: float = 0.0) -> Iterator[HostEvent]:
        facts = JobFacts(
            self.counter, True, True, 2, {NEXT: self.sent - self.found_late}, {}, resting=resting, waiting_bytes=EMPTY
        )
        counted = facts._replace(counted_bytes=self.sent, marked_bytes=self.marked)
        yield from self.demand.observe(counted)

    def launch(self) -> None:
        self.counter, self.marked = self.counter + 1, self.sent

    def send(self, size: float, *, rests: bool) -> list[HostEvent]:
        self.sent += size
        return [*self.looks(resting=False), *(self.looks() if rests else ())]


@pytest.mark.parametrize("rests_before", [0b01010, 0b00110, 0b01101])  # the iterations in which a look finds it so
@pytest.mark.parametrize("rests_after", [0.0, 40.0, 70.0, 90.0])  # bytes of a burst
def test_a_rest_in_or_before_a_burst_makes_no_size(rests_before: int, rests_after: float) -> None:
    job, sizes = CountedJob(), []
    for number in range(10):
        job.launch()
        events = list(job.looks()) if rests_before >> number % 5 & 1 else []
        events += job.send(rests_after, rests=number % 2 == 0)
        events += job.send(100.0 - rests_after, rests=True)
        sizes += [spec.size_bytes for event in events if isinstance(event, JobJoined) for spec in event.flows]
    assert sizes == [100.0]


def test_bytes_that_were_sent_before_a_socket_was_found_make_no_size() -> None:
    job, sizes = CountedJob(), []
    for number in range(4):
        job.launch()
        events = job.send(100.0, rests=False)
        job.found_late = 5.0 if number else 0.0
        events += list(job.looks())
        sizes += [spec.size_bytes for event in events if isinstance(event, JobJoined) for spec in event.flows]
    assert sizes == [100.0]
