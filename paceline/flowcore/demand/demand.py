"""A job's demand on this host: which flows it has, what each sends in an iteration, and which of them wait now.

How bursts are told from facts depends on how a job communicates (announced.py, launched.py); what is known of them does
not. Pure: facts in, events out. Volumes are bytes on the wire.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from statistics import median

from paceline.flowcore.demand.facts import LEAST_PART, Ends, JobFacts
from paceline.flowcore.demand.flows import flow_id, job_joined
from paceline.flowcore.demand.profile import Profile, Sizes, Stop
from paceline.flowcore.detect.sizes import SizeLearner
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, JobLeft
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED

# Iteration counter and sockets are read a few milliseconds apart, so that the last packets of an iteration may be
# counted in the next: sizes this close are the same size.
SAME = 0.005

# A flow is through when it has sent all: what is left when it gives up its turn may wait for as long as other jobs'
# bursts take. But a size that was learned too large must not keep a flow live that has nothing to send: nearly all is
# enough (detect/bursts.py) of one that rests.
ALL = 0.999

# Of an iteration: buffers and a loss that is summed up to be printed are no burst.
ANNOUNCING = 0.005


class Demand(ABC):
    """`least_bytes`: bursts of less are over before a turn could be taken."""

    def __init__(self, job: str, host: str, least_bytes: float = 0.0) -> None:
        self.job, self.host, self.least_bytes = job, host, least_bytes
        self.weight = 1.0  # that the job asks for ...
        self.iterations = 0  # ... and how many it says it will do; 0: it does not say
        self.live: set[Ends] = set()
        self.before_first = True  # no end of an iteration was seen yet
        self.learner: SizeLearner[Sizes] = SizeLearner(_alike, _typical)
        self.profile = Profile({})
        self._iteration = -1  # the one in hand
        self._base: dict[Ends, float] = {}  # sent when this iteration began
        self._stop: Stop | None = None  # where the burst in hand ends; None: with the iteration
        self._received_bytes: Mapping[Ends, float] = {}

    @abstractmethod
    def observe(self, facts: JobFacts) -> list[HostEvent]:
        """What the agent should hear, of what is known now."""

    @property
    def sizes(self) -> Sizes:
        """Of one iteration; empty: not learned."""
        return self.learner.size or {}

    @property
    def paced(self) -> bool:
        """It has joined."""
        return bool(self.sizes) and not self.left_to_tcp

    @property
    def left_to_tcp(self) -> str:
        """Why, where it is."""
        return "its bursts have no pattern" if self.profile.scattered else ""

    @property
    def between_bursts(self) -> bool:
        """It computes, and more of this iteration is to come."""
        return self._stop is not None and not self.live

    @property
    def must_see_rests(self) -> bool:
        """While it sends: where it comes to rest is news, and a late look misses it."""
        return False

    def introduce(self, facts: JobFacts) -> list[HostEvent]:
        """The job as it is now, for a listener that missed its events: it joins, and what it sends is ready."""
        return [self._joined(facts), *self._ready()] if self.paced else []

    def left(self) -> list[HostEvent]:
        joined, self.learner, self.live = self.paced, SizeLearner(_alike, _typical), set()
        self.profile = Profile({})
        return [JobLeft(self.job)] if joined else []

    def until_bytes(self, ends: Ends) -> float:
        """Of this iteration's bytes: there the burst in hand ends."""
        size = self.sizes[ends]
        return min(size, self._stop.sent_bytes.get(ends, size)) if self._stop is not None else size

    def sent_bytes(self, ends: Ends, facts: JobFacts) -> float:
        """In the current iteration, never more than its size."""
        sent = facts.sent_bytes.get(ends, 0.0) - self._base.get(ends, 0.0)
        return min(max(0.0, sent), self.sizes[ends])

    def sent(self, facts: JobFacts) -> list[tuple[Ends, float]]:
        """Of the live flows."""
        return [(ends, self.sent_bytes(ends, facts)) for ends in sorted(self.live)]

    def progress(self, facts: JobFacts) -> list[tuple[FlowId, float]]:
        return [(self._flow(ends), sent) for ends, sent in self.sent(facts)]

    def idle(self, facts: JobFacts) -> list[FlowId]:
        return [self._flow(ends) for ends in sorted(self.live & facts.idle)]

    def flow_ids(self) -> dict[Ends, FlowId]:
        return {ends: self._flow(ends) for ends in self.sizes}

    # ---- For both ways ----

    def _sent_so_far(self, facts: JobFacts) -> dict[Ends, float]:
        return {ends: self.sent_bytes(ends, facts) for ends in self.sizes}

    def _ready(self) -> list[HostEvent]:
        """The live flows, and how far their burst goes."""
        until = {ends: self.until_bytes(ends) for ends in self.live}
        return [
            FlowReady(self._flow(ends), self._iteration, UNLIMITED if until[ends] >= self.sizes[ends] else until[ends])
            for ends in sorted(self.live)
        ]

    def _through(self, facts: JobFacts, enough: float) -> list[HostEvent]:
        """The flows that have sent this part of their burst."""
        through = [ends for ends, sent in self.sent(facts) if sent >= enough * self.until_bytes(ends)]
        return [self._done(ends) for ends in through]

    def _all_done(self) -> list[HostEvent]:
        return [self._done(ends) for ends in sorted(self.live)]

    def _done(self, ends: Ends) -> FlowDone:
        self.live.discard(ends)
        return FlowDone(self._flow(ends))

    def _learn(self, facts: JobFacts, sample: Sizes) -> list[HostEvent]:
        """What one iteration sent, flow by flow; the job joins, or joins again with other sizes."""
        total = sum(sample.values())
        sample = {ends: size for ends, size in sample.items() if size > max(0.0, LEAST_PART * total)}
        anew = bool(sample) and self.learner.observe(sample)
        if anew or not sample:
            self.learner.forget_samples()  # a job whose sizes never agree joins again after five iterations only
        if anew and not self.sizes:
            self.learner = SizeLearner(_alike, _typical)  # no flow is in most samples: the next sample is a first one
        if not anew:
            return []
        was_paced, self.profile, self._stop = self.paced, Profile(self.sizes), None
        self._begin_anew()
        if self.sizes:
            return [self._joined(facts)]
        return [JobLeft(self.job)] if was_paced else []

    def _begin_anew(self) -> None:  # noqa: B027  # a demand that learns nothing of bursts has nothing to do
        """Other sizes: what was learned of bursts is of another iteration."""

    def _profile_iteration(self, facts: JobFacts) -> list[HostEvent]:
        """One has ended, and its profile with it."""
        was_paced = self.paced
        self.profile.iteration_ended()
        return self._leave_or_join(facts, was_paced)

    def _leave_or_join(self, facts: JobFacts, was_paced: bool) -> list[HostEvent]:
        """A job that is left to TCP leaves, and joins again when it is not."""
        if was_paced and not self.paced:
            return [*self._all_done(), JobLeft(self.job)]
        return [self._joined(facts)] if self.paced and not was_paced else []

    def _joined(self, facts: JobFacts) -> HostEvent:
        left = max(0, self.iterations - facts.iteration)
        return job_joined(self.job, self.host, self.sizes, self._received_bytes, facts.members, self.weight, left)

    def _flow(self, ends: Ends) -> FlowId:
        return flow_id(self.job, self.host, ends)


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
