"""The demand of a job that launches its exchange before the bytes exist: NCCL, where Python runs ahead of the GPU.

The iteration counter moves when the last kernel is *launched*, and the next iteration may be launched before this one's
bytes are out; so counter and announcements say how many iterations there are, and nothing about when. Bytes do:

    facts                                     event
    ────────────────────────────────────────────────────────────────────────
    bytes move after a rest, or beyond a stop FlowReady for every flow, up to the next stop (profile.py)
    bytes wait there: another job sends       the same
    a launch waits at the gate                the same: its bytes cannot move before
    a flow has sent that                      FlowDone
    all flows have sent the iteration's size  IterationEnded
    at a rest                                 a sample of the iteration's size: JobJoined where it is news

What an iteration's size is, is told by the plugin's counts (whole_iterations.py). An iteration that rests short of its
size waits for another member, until two more have been counted: a job is at most one launch ahead of the network when
it rests.

No flow is said to feed another: hosts would have to agree on the number of an iteration, and each counts its own.
"""

from collections.abc import Iterable, Mapping
from math import inf

from paceline.flowcore.demand.demand import ALL, ANNOUNCING, Demand
from paceline.flowcore.demand.facts import Ends, JobFacts
from paceline.flowcore.demand.whole_iterations import WholeIterations
from paceline.flowcore.detect.bursts import NEARLY
from paceline.flowcore.messages.events import HostEvent, IterationEnded

LAUNCHED_AHEAD = 2  # iterations counted since this one began: it is over, whatever it sent

# Of an iteration: nothing else is sent in the middle of one, and beside another job's burst little more moves.
RESUMING = 0.0005

# Of an iteration: so much is no remainder of the last burst, nor buffers that are sent before a pass.
HELD_UP = 0.002

# Of an iteration: a job of several bursts that sends so much beyond the end of one did not rest there this time, or
# too shortly to be seen.
BEYOND = 0.01


class LaunchedDemand(Demand):
    def __init__(self, job: str, host: str, least_bytes: float = 0.0) -> None:
        super().__init__(job, host, least_bytes)
        self._iteration = 0  # its own count: the job's counter runs ahead
        self._rested: Mapping[Ends, float] | None = None  # sent when it last rested; None: not since this burst began
        self._stopped: Mapping[Ends, float] | None = None  # sent when the last burst ended, of several an iteration
        self._iterations = WholeIterations()
        self._began_at: int | None = None  # the counter when the iteration in hand began; None: it has not yet
        self._last: JobFacts | None = None

    @property
    def must_see_rests(self) -> bool:
        return self.profile.learning

    def observe(self, facts: JobFacts) -> list[HostEvent]:
        last, self._last = self._last, facts
        self._iterations.observe(facts)
        events = self._rest(last) if facts.rested and last is not None and not self.live else []
        events += self._finish(facts)
        waits = self._waits(facts, last)
        if facts.held:
            events += self._held(facts)
        elif facts.resting and not waits and not self._is_let_go(facts):
            events += self._rest(facts)
        elif self.paced and not self.live and (waits or self._moves(facts)):
            events += self._begin(facts)
        return events

    def _held(self, facts: JobFacts) -> list[HostEvent]:
        """What is launched next is no part of what was launched before, which is out where nothing moves."""
        ended: list[HostEvent] = []
        if self._began_at is not None and facts.iteration > self._began_at and facts.resting:
            ended = [*self._all_done(), *self._end_iteration(facts)]
            self._base = dict(facts.sent_bytes)
        return ended + (self._begin(facts) if self.paced and not self.live else [])

    def _is_let_go(self, facts: JobFacts) -> bool:
        """A burst that was held and has not sent anything yet: it begins, and does not rest."""
        if self._rested is not None or self._stopped is not None or self._began_at is None or not self.live:
            return False
        sent = self._sent_so_far(facts)
        has_sent = any(sent[ends] > ANNOUNCING * size for ends, size in self.sizes.items())
        return not has_sent and facts.iteration - self._began_at < LAUNCHED_AHEAD

    def _waits(self, facts: JobFacts, last: JobFacts | None) -> bool:
        """For the network, before a burst: at two looks in a row its sockets held something."""
        both = facts.waiting_bytes.keys() - facts.idle - (last.idle if last is not None else facts.waiting_bytes.keys())
        return not self.live and self._has_handed_over(facts, both, HELD_UP)

    def _moves(self, facts: JobFacts) -> bool:
        after_rest = RESUMING if self.between_bursts else ANNOUNCING
        return self._has_handed_over(facts, self.sizes.keys(), BEYOND if self._rested is None else after_rest)

    def _has_handed_over(self, facts: JobFacts, flows: Iterable[Ends], least: float) -> bool:
        """To the network, or to sockets, since it rested or its last burst ended."""
        since = self._stopped if self._rested is None else self._rested
        return since is not None and any(
            facts.sent_bytes.get(ends, 0.0) + facts.waiting_bytes.get(ends, 0.0) - since.get(ends, 0.0)
            > least * self.sizes.get(ends, inf)
            for ends in flows
        )

    def _begin(self, facts: JobFacts) -> list[HostEvent]:
        sent = self._sent_so_far(facts)
        self._rested, self._stopped = None, None
        self._began_at = facts.iteration if self._began_at is None else self._began_at
        self._stop = self.profile.next_stop(sent)
        self.live = {ends for ends, size in self.sizes.items() if sent[ends] < size}
        return self._ready() + self._finish(facts)

    def _finish(self, facts: JobFacts) -> list[HostEvent]:
        done = self._through(facts, NEARLY if facts.resting and self._stop is None else ALL)
        if done and not self.live:
            done += self._end_iteration(facts) if self._stop is None else []
            self._stopped = dict(facts.sent_bytes) if self.profile.stops else None
        return done

    def _all_sent(self, facts: JobFacts) -> bool:
        return all(sent >= ALL * self.sizes[ends] for ends, sent in self._sent_so_far(facts).items())

    def _end_iteration(self, facts: JobFacts) -> list[HostEvent]:
        """The next one's bytes count from where this one should have ended, or from the next rest."""
        self._base = {
            ends: self._base.get(ends, 0.0) + self.sizes.get(ends, 0.0) for ends in facts.sent_bytes.keys() | self.sizes
        }
        self._iteration, self._began_at, self._rested = self._iteration + 1, None, None
        return [IterationEnded(self.job), *self._profile_iteration(facts)]

    def _rest(self, facts: JobFacts) -> list[HostEvent]:
        events: list[HostEvent] = []
        if self._began_at is not None and self.sizes and facts.idle >= self.live:  # else its limits hold it
            if facts.iteration - self._began_at >= LAUNCHED_AHEAD or self._all_sent(facts):
                events += [*self._all_done(), *self._end_iteration(facts)]
            else:
                self.profile.rested(self._sent_so_far(facts))
        if self._began_at is None:
            self._base = dict(facts.sent_bytes)
        self._rested = dict(facts.sent_bytes)
        return events if self.live else events + self._sample(facts)

    def _sample(self, facts: JobFacts) -> list[HostEvent]:
        sample = self._iterations.sample(facts)
        self.before_first = not facts.iteration
        events = self._learn(facts, sample) if sample is not None else []
        if events:
            self._base, self._began_at = dict(facts.sent_bytes), None
        return events
