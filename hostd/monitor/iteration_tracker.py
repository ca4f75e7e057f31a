"""From counters to events: what one job on this host does, as the decision engine wants to hear it.

    counters                                  event
    ────────────────────────────────────────────────────────────────────────
    a whole iteration seen                    JobJoined, with the flows found
    bytes announced in a new iteration        FlowReady for every flow
    a flow has sent its size                  FlowDone
    the iteration has ended and all is sent   IterationEnded
    sizes have changed, twice alike           JobJoined again
    its processes have gone                   JobLeft

Under NCCL the iteration's mark runs ahead of the network: the GPU sends while Python goes on. There a flow that has
bytes left at the mark stays live until they are sent, and the next iteration's are counted from where it should have
ended. The next announcement ends it in any case.

Under a parameter server the mark comes with the next iteration's first bytes, and some of those may have been sent
before we look. The iteration ended where its flows last rested.

Nothing is asked of the job's owner. To whom it sends is in its sockets; how much, in what they sent from the end of
one iteration to the end of the next; who feeds whom, in what they received: a ring's flow out of a host forwards
what comes in, a server's flows give back what was pushed to it. Of a ring's later members a host knows nothing, and
says nothing.

Pure: facts in, events out. Volumes are bytes on the wire.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, IterationEnded, JobJoined, JobLeft
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.units import UNLIMITED

# Marks and counters are read a few milliseconds apart, so that the last packets of an iteration may be booked
# into the next: sizes this close are the same size.
SAME = 0.005

# A flow is through when it has sent all: what is left when it gives up its turn may wait for as long as others' bursts
# take. But a size that was learned too large must not keep a flow live that has nothing to send: nearly all is enough
# (paceline/flowcore/detect/bursts.py) of one that rests, and where no mark will tell.
ALL = 0.999

AGREEING = 2  # iterations alike before another size is believed than the first
MOST_SAMPLES = 5  # of iterations that never agree, the median counts

# A connection that carries less than this part of the job's traffic is control.
LEAST_PART = 0.01

# (role, target) and (role, source): a host may be worker and server of the same job.
Ends = tuple[Role, str]


class JobFacts(NamedTuple):
    """What is known of a job now, over all its processes on this host."""

    iteration: int  # how many have ended
    announced: bool  # bytes of the current one have been handed over for sending, and more than a few
    marks_early: bool  # the end of an iteration is marked before all of it is sent
    members: int  # ranks in all
    sent_bytes: Mapping[Ends, float]  # since the job was first seen, by role and target
    received_bytes: Mapping[Ends, float]  # by role and source, from whom it is fed
    resting: bool = False  # nothing has been sent for a while
    connections: frozenset[int] = frozenset()  # that carry its data, by cookie
    idle: frozenset[Ends] = frozenset()  # whose sockets hold nothing that the network has not taken


@dataclass(slots=True)
class JobWatch:
    job: str
    host: str
    sizes: dict[Ends, float] = field(default_factory=dict)  # of one iteration; empty: not joined
    live: set[Ends] = field(default_factory=set)
    ending: bool = False  # marked as ended, and not all is sent
    _iteration: int = -1
    before_first: bool = True  # no end of an iteration was seen yet
    _began_with: frozenset[Ends | int] = frozenset()  # what connections it had when this iteration began, and to whom
    _base: dict[Ends, float] = field(default_factory=dict)  # sent when this iteration began
    _late_base: dict[Ends, float] = field(default_factory=dict)  # the same for flows that outlast its mark
    _rested: dict[Ends, float] = field(default_factory=dict)  # sent when it last rested
    _samples: list[dict[Ends, float]] = field(default_factory=list)
    _sources: dict[Ends, float] = field(default_factory=dict)  # received in all
    _fed: bool = False  # this iteration's bytes were announced while we watched

    def observe(self, facts: JobFacts) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self._iteration < 0:  # in the middle of one, perhaps: then it counts from the next
            self._iteration, self._base = facts.iteration, dict(facts.sent_bytes)
        if self.before_first and facts.iteration == self._iteration and not facts.announced:
            # What was sent so far prepared the first.
            self._base, self._began_with = dict(facts.sent_bytes), facts.connections | facts.sent_bytes.keys()
        self._sources = dict(facts.received_bytes)
        if facts.resting:
            self._rested = dict(facts.sent_bytes)
        events += self._finish(facts)
        if facts.iteration != self._iteration:
            events += self._marked(facts)
        if facts.announced and self.sizes and not self._fed:
            events += self._end_for_sure()
            self._fed = True
            self.live = set(self.sizes)
            events += (FlowReady(self._flow(ends), facts.iteration) for ends in sorted(self.live))
            events += self._finish(facts)
        return events

    def introduce(self, facts: JobFacts) -> list[HostEvent]:
        """The job as it is now, for whoever did not listen: it joins, and what it sends is ready."""
        ready = (FlowReady(self._flow(ends), facts.iteration) for ends in sorted(self.live))
        return [self._joined(facts), *ready] if self.sizes else []

    def left(self) -> list[HostEvent]:
        joined, self.sizes, self.live = bool(self.sizes), {}, set()
        return [JobLeft(self.job)] if joined else []

    def sent_bytes(self, ends: Ends, facts: JobFacts) -> float:
        """In the current iteration, never more than its size."""
        base = self._late_base if self.ending and ends in self._late_base else self._base
        return min(max(0.0, facts.sent_bytes.get(ends, 0.0) - base.get(ends, 0.0)), self.sizes[ends])

    def sent(self, facts: JobFacts) -> list[tuple[Ends, float]]:
        """Of the live flows."""
        return [(ends, self.sent_bytes(ends, facts)) for ends in sorted(self.live)]

    def progress(self, facts: JobFacts) -> list[tuple[FlowId, float]]:
        return [(self._flow(ends), sent) for ends, sent in self.sent(facts)]

    def idle(self, facts: JobFacts) -> list[FlowId]:
        return [self._flow(ends) for ends in sorted(self.live & facts.idle)]

    def flow_ids(self) -> dict[Ends, FlowId]:
        return {ends: self._flow(ends) for ends in self.sizes}

    # ---- Iterations ----

    def _finish(self, facts: JobFacts) -> list[HostEvent]:
        """The flows that are through by now, and with the last of them perhaps the iteration."""
        enough = NEARLY if facts.resting or facts.marks_early else ALL
        through = [ends for ends, sent in self.sent(facts) if sent >= enough * self.sizes[ends]]
        events: list[HostEvent] = [self._done(ends) for ends in through]
        return events + (self._end_for_sure() if self.ending and not self.live else [])

    def _end_for_sure(self) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self.ending:
            self.ending = False
            events = [self._done(ends) for ends in sorted(self.live)]
            events.append(IterationEnded(self.job))
        return events

    def _marked(self, facts: JobFacts) -> list[HostEvent]:
        events = self._end_for_sure()
        self.ending = bool(self.sizes)
        ended = {ends: self._ended_at(ends, sent, facts) for ends, sent in facts.sent_bytes.items()}
        passed = facts.iteration - self._iteration
        learned: list[HostEvent] = []
        # A poll that missed some knows only their sum, and of what connections sent before they were found, nothing.
        if passed == 1 and self._was_whole(facts):
            learned = self._learn(facts, ended)
        late = set(self.live) if facts.marks_early and not learned else set()
        self._late_base = {ends: self._base.get(ends, 0.0) for ends in late}
        self._base = {
            ends: self._late_base[ends] + self.sizes[ends] if ends in late else sent for ends, sent in ended.items()
        }
        self._iteration, self._fed = facts.iteration, False
        self._began_with, self.before_first = frozenset(facts.sent_bytes), False
        if not late:
            events += self._end_for_sure()
        return events + learned

    def _was_whole(self, facts: JobFacts) -> bool:
        """Whether we saw all that the iteration sent. The first one's connections may be found in the middle of it. And
        where marks come early it lacks what is sent after its mark; later ones have as much of the one before."""
        if self.before_first:
            return not facts.marks_early and self._began_with >= facts.connections | facts.sent_bytes.keys()
        return self._began_with == facts.sent_bytes.keys()

    def _ended_at(self, ends: Ends, sent: float, facts: JobFacts) -> float:
        """What the flow had sent at the end of the iteration that is marked as ended."""
        rested = self._rested.get(ends, 0.0)
        return rested if facts.announced and ends not in self.live and rested > self._base.get(ends, 0.0) else sent

    def _learn(self, facts: JobFacts, ended: Mapping[Ends, float]) -> list[HostEvent]:
        sample = {ends: sent - self._base.get(ends, 0.0) for ends, sent in ended.items()}
        total = sum(sample.values())
        sample = {ends: size for ends, size in sample.items() if size > LEAST_PART * total}
        if not sample or _alike(sample, self.sizes):
            self._samples.clear()
            return []
        self._samples = [*self._samples, sample][-MOST_SAMPLES:]
        recent = self._samples[-AGREEING:]
        if not self.sizes or (len(recent) == AGREEING and _alike(*recent)):
            return self._join(sample, facts)
        if len(self._samples) == MOST_SAMPLES:
            ends = set().union(*self._samples)
            return self._join({e: median(s.get(e, 0.0) for s in self._samples) for e in ends}, facts)
        return []

    def _join(self, sizes: Mapping[Ends, float], facts: JobFacts) -> list[HostEvent]:
        self._samples.clear()
        self.sizes = {ends: size for ends, size in sizes.items() if size > 0}
        return [self._joined(facts)]

    def _joined(self, facts: JobFacts) -> JobJoined:
        received = {ends: size for ends, size in self._sources.items() if size > 0}
        specs = tuple(self._spec(ends, received, facts.members) for ends in sorted(self.sizes))
        feeds = tuple((spec.flow, self._followers(spec.flow, received, facts.members)) for spec in specs)
        return JobJoined(self.job, specs, feeds)

    # ---- Flows ----

    def _flow(self, ends: Ends) -> FlowId:
        role, target = ends
        return FlowId(self.job, self.host, target, role)

    def _done(self, ends: Ends) -> FlowDone:
        self.live.discard(ends)
        return FlowDone(self._flow(ends))

    def _spec(self, ends: Ends, received: Iterable[Ends], members: int) -> FlowSpec:
        size_bytes, flow = self.sizes[ends], self._flow(ends)
        match flow.role:
            case Role.RING:
                upstream = self._arriving(Role.RING, Role.RING, received)
                return FlowSpec(flow, size_bytes, upstream, size_bytes / (2 * max(1, members - 1)))
            case Role.PULL:
                return FlowSpec(flow, size_bytes, self._arriving(Role.PUSH, Role.PULL, received), 0.0)
            case _:
                return FlowSpec(flow, size_bytes, (), UNLIMITED)

    def _arriving(self, sent_as: Role, received_as: Role, received: Iterable[Ends]) -> tuple[FlowId, ...]:
        return tuple(FlowId(self.job, host, self.host, sent_as) for role, host in received if role == received_as)

    def _followers(self, flow: FlowId, received: Mapping[Ends, float], members: int) -> tuple[FlowId, ...]:
        if flow.role == Role.PUSH:
            return (FlowId(self.job, flow.target, self.host, Role.PULL),)
        if flow.role == Role.RING and members == 2 and (Role.RING, flow.target) in received:
            return (FlowId(self.job, flow.target, self.host, Role.RING),)
        return ()


def _alike(one: Mapping[Ends, float], other: Mapping[Ends, float]) -> bool:
    """The same flows, each of nearly the same size."""
    return one.keys() == other.keys() and all(
        abs(size - other[ends]) <= SAME * max(size, other[ends]) for ends, size in one.items()
    )
