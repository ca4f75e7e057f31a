"""From counters to events: what one job on this host does, as the decision engine wants to hear it.

    counters                                  event
    ────────────────────────────────────────────────────────────────────────
    a whole iteration seen                    JobJoined, with the flows found
    bytes announced in a new iteration        FlowReady for every flow
    a flow has sent its size                  FlowDone
    the iteration has ended and all is sent   IterationEnded
    sizes have changed, twice alike           JobJoined again
    its processes have gone                   JobLeft

Under NCCL the iteration counter runs ahead of the network: the GPU sends while Python goes on. There a flow that has
bytes left when the counter moves stays live until they are sent, and the next iteration's are counted from where it
should have ended. The next announcement ends it in any case.

Under a parameter server the counter moves with the next iteration's first bytes, and some of those may have been sent
before hostd looks. The iteration ended where its flows last rested.

How much a flow sends in an iteration is what its sockets sent from the end of one to the end of the next, learned by
the rule of detect.sizes.SizeLearner.

Pure: facts in, events out. Volumes are bytes on the wire.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from paceline.flowcore.demand.facts import LEAST_PART, Ends, JobFacts
from paceline.flowcore.demand.flows import flow_id, job_joined
from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.detect.sizes import SizeLearner
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, IterationEnded, JobLeft
from paceline.flowcore.model.patterns import FlowId

# Iteration counter and sockets are read a few milliseconds apart, so that the last packets of an iteration may be
# counted in the next: sizes this close are the same size.
SAME = 0.005

# A flow is through when it has sent all: what is left when it gives up its turn may wait for as long as other jobs'
# bursts take. But a size that was learned too large must not keep a flow live that has nothing to send: nearly all is
# enough (paceline/flowcore/detect/bursts.py) of one that rests, and where no iteration counter will tell.
ALL = 0.999

Sizes = Mapping[Ends, float]


class IterationTracker:
    def __init__(self, job: str, host: str) -> None:
        self.job, self.host = job, host
        self.live: set[Ends] = set()
        self.ending = False  # the iteration counter has moved, and not all is sent
        self.before_first = True  # no end of an iteration was seen yet
        self.learner = _size_learner()
        self._iteration = -1
        self._began_with: frozenset[Ends | int] = frozenset()  # connections and targets when this iteration began
        self._base: dict[Ends, float] = {}  # sent when this iteration began
        self._late_base: dict[Ends, float] = {}  # the same for flows that outlast its counter
        self._rested: dict[Ends, float] = {}  # sent when it last rested
        self._received_bytes: Mapping[Ends, float] = {}
        self._announced = False  # this iteration's bytes were announced while hostd watched

    @property
    def sizes(self) -> Sizes:
        """Of one iteration; empty: not joined."""
        return self.learner.size or {}

    def observe(self, facts: JobFacts) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self._iteration < 0:  # in the middle of one, perhaps: then it counts from the next
            self._iteration, self._base = facts.iteration, dict(facts.sent_bytes)
        if self.before_first and facts.iteration == self._iteration and not facts.announced:
            # What was sent so far prepared the first.
            self._base, self._began_with = dict(facts.sent_bytes), facts.connections | facts.sent_bytes.keys()
        self._received_bytes = facts.received_bytes
        if facts.resting:
            self._rested = dict(facts.sent_bytes)
        events += self._finish(facts)
        if facts.iteration != self._iteration:
            events += self._counted(facts)
        if facts.announced and self.sizes and not self._announced:
            events += self._end_iteration()
            self._announced = True
            self.live = set(self.sizes)
            events += (FlowReady(self._flow(ends), facts.iteration) for ends in sorted(self.live))
            events += self._finish(facts)
        return events

    def introduce(self, facts: JobFacts) -> list[HostEvent]:
        """The job as it is now, for a listener that missed its events: it joins, and what it sends is ready."""
        ready = (FlowReady(self._flow(ends), facts.iteration) for ends in sorted(self.live))
        return [self._joined(facts), *ready] if self.sizes else []

    def left(self) -> list[HostEvent]:
        joined, self.learner, self.live = bool(self.sizes), _size_learner(), set()
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
        enough = NEARLY if facts.resting or facts.counts_early else ALL
        through = [ends for ends, sent in self.sent(facts) if sent >= enough * self.sizes[ends]]
        events: list[HostEvent] = [self._done(ends) for ends in through]
        return events + (self._end_iteration() if self.ending and not self.live else [])

    def _end_iteration(self) -> list[HostEvent]:
        """If it has not ended yet; what its flows have left does not count any more."""
        events: list[HostEvent] = []
        if self.ending:
            self.ending = False
            events = [self._done(ends) for ends in sorted(self.live)]
            events.append(IterationEnded(self.job))
        return events

    def _counted(self, facts: JobFacts) -> list[HostEvent]:
        """The iteration counter has moved."""
        events = self._end_iteration()
        self.ending = bool(self.sizes)
        ended = {ends: self._ended_at(ends, sent, facts) for ends, sent in facts.sent_bytes.items()}
        passed = facts.iteration - self._iteration
        learned: list[HostEvent] = []
        # A poll that missed some knows only their sum, and of what connections sent before they were found, nothing.
        if passed == 1 and self._was_whole(facts):
            learned = self._learn(facts, ended)
        late = set(self.live) if facts.counts_early and not learned else set()
        self._late_base = {ends: self._base.get(ends, 0.0) for ends in late}
        self._base = {
            ends: self._late_base[ends] + self.sizes[ends] if ends in late else sent for ends, sent in ended.items()
        }
        self._iteration, self._announced = facts.iteration, False
        self._began_with, self.before_first = frozenset(facts.sent_bytes), False
        if not late:
            events += self._end_iteration()
        return events + learned

    def _was_whole(self, facts: JobFacts) -> bool:
        """Whether all that the iteration sent was seen. The first one's connections may be found in the middle of it.
        And where the counter moves early it lacks what is sent afterwards; later ones have as much of the one before.
        """
        if self.before_first:
            return not facts.counts_early and self._began_with >= facts.connections | facts.sent_bytes.keys()
        return self._began_with == facts.sent_bytes.keys()

    def _ended_at(self, ends: Ends, sent: float, facts: JobFacts) -> float:
        """What the flow had sent at the end of the iteration that is counted now."""
        rested = self._rested.get(ends, 0.0)
        return rested if facts.announced and ends not in self.live and rested > self._base.get(ends, 0.0) else sent

    def _learn(self, facts: JobFacts, ended: Mapping[Ends, float]) -> list[HostEvent]:
        sample = {ends: sent - self._base.get(ends, 0.0) for ends, sent in ended.items()}
        total = sum(sample.values())
        sample = {ends: size for ends, size in sample.items() if size > max(0.0, LEAST_PART * total)}

        anew = bool(sample) and self.learner.observe(sample)
        if anew or not sample:
            self.learner.forget_samples()  # a job whose sizes never agree joins again after five iterations only
        events: list[HostEvent] = [self._joined(facts)] if anew else []
        if anew and not self.sizes:
            self.learner = _size_learner()  # no flow is in most samples: the next sample is a first one
        return events

    def _joined(self, facts: JobFacts) -> HostEvent:
        return job_joined(self.job, self.host, self.sizes, self._received_bytes, facts.members)

    def _done(self, ends: Ends) -> FlowDone:
        self.live.discard(ends)
        return FlowDone(self._flow(ends))

    def _flow(self, ends: Ends) -> FlowId:
        return flow_id(self.job, self.host, ends)


def _size_learner() -> SizeLearner[Sizes]:
    return SizeLearner(_alike, _typical)


def _alike(one: Sizes, other: Sizes) -> bool:
    """The same flows, each of nearly the same size."""
    return one.keys() == other.keys() and all(
        abs(size - other[ends]) <= SAME * max(size, other[ends]) for ends, size in one.items()
    )


def _typical(samples: Sequence[Sizes]) -> Sizes:
    """Each flow's median; one that most of them lack is none."""
    ends = set().union(*samples)
    sizes = {one: median(sample.get(one, 0.0) for sample in samples) for one in ends}
    return {one: size for one, size in sizes.items() if size > 0}
