"""How a job's iterations pass: how long each takes, and how much of it the job computes. Pure: facts in, times out.

    iteration     from one move of the iteration counter to the next, by the shim's own clock: exact, however seldom
                  the job is looked at
    computing     from the end of an exchange to the next announcement, over all bursts of the iteration
    beside        from a burst's first announcement to its last: the job computes while bytes travel
    exchange      what is left of the iteration

    a look      ──────┬───────────────┬────────┬───────────────┬──────▶
    exchange ends, iteration k begins ┘        └ bytes announced

Announcements and ends are dated by the shim; which of them were first in a burst only close looks tell, so other looks
count iterations and nothing else. Where the counter is moved by the next iteration's first bytes (a parameter server's
worker), the exchange ended where bytes last came to their end; between two bursts, where they last moved. A job without
such dates (NCCL launches ahead, or there is no shim) computes while nothing moves: LEAST_REST_NS of it, or it is a gap
within the exchange.
"""

from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from paceline.flowcore.demand.facts import JobFacts

WARM_UP_ITERATIONS = 3
KEPT_ITERATIONS, KEPT_SAMPLES = 512, 64
FEWEST_SAMPLES = 3
LEAST_REST_NS = 10_000_000
SAME_MOMENT_NS = 1_000_000  # the counter moved with the first bytes
FAST = 0.1  # the fastest tenth of iterations is as fast as it gets


@dataclass(frozen=True, slots=True)
class IterationTimes:
    """Of the last iterations. Where no close look was long enough, only how long they took is known."""

    iterations: int
    iteration_ns: float  # mean
    fastest_ns: float  # at most so long the fastest tenth of them took
    computing_ns: float | None = None
    beside_ns: float = 0.0
    bursts: int = 1
    jitter: float = 0.0  # standard deviation of the computing ÷ its mean


@dataclass(frozen=True, slots=True)
class _Ended:
    """Iterations that ended between two looks."""

    at_ns: int  # by the caller's clock
    count: int
    duration_ns: int  # of all of them


@dataclass(frozen=True, slots=True)
class _Sample:
    computing_ns: int
    beside_ns: int
    bursts: int


class JobTiming:
    """Of one job on one host."""

    def __init__(self) -> None:
        self._ended: deque[_Ended] = deque(maxlen=KEPT_ITERATIONS)
        self._samples: deque[_Sample] = deque(maxlen=KEPT_SAMPLES)
        self._forget()

    def _forget(self) -> None:
        """What happens now: no iteration was seen from its beginning."""
        self._iteration: int | None = None
        self._began_ns = 0  # the iteration in hand
        self._announced_ns = self._idle_ns = self._moved_ns = 0
        self._sending = False
        self._ahead_ns = 2**63  # the caller's clock of the shim's, at most: no date is of the future
        self._begin(whole=False)

    def _begin(self, whole: bool) -> None:
        self._computing_ns = self._beside_ns = self._bursts = 0
        self._whole = whole  # looked at closely from its beginning

    def observe(self, facts: JobFacts, now_ns: int, closely: bool = True) -> None:
        if self._iteration is None or facts.iteration < self._iteration:  # a restarted job counts anew
            self._forget()
            self._iteration, self._began_ns = facts.iteration, facts.began_ns or now_ns
            self._announced_ns, self._idle_ns = facts.announced_ns, max(facts.completed_ns, facts.began_ns)
            self._moved_ns = facts.moved_ns
            return
        self._whole &= closely
        self._ahead_ns = min(self._ahead_ns, now_ns - max(facts.began_ns, facts.announced_ns, facts.completed_ns))
        if facts.iteration > self._iteration:
            self._count(facts, now_ns, closely)
        if facts.began_ns and not facts.counts_early:
            self._follow_announcements(facts)
        else:
            self._follow_movement(now_ns if facts.held else facts.moved_ns)

    @property
    def is_known(self) -> bool:
        """How much of an iteration the job computes."""
        return len(self._samples) >= FEWEST_SAMPLES

    def times(self, since_ns: int = 0) -> IterationTimes | None:
        """Of the iterations that ended since then; None: there are none."""
        ended = [one for one in self._ended if one.at_ns >= since_ns]
        if not ended:
            return None
        count = sum(one.count for one in ended)
        mean_ns, fastest_ns = sum(one.duration_ns for one in ended) / count, _fastest_ns(ended, count)
        if not self.is_known:
            return IterationTimes(count, mean_ns, fastest_ns)
        computing = sorted(one.computing_ns for one in self._samples)
        computing_ns = float(median(computing))
        spread_ns = computing[round(0.84 * (len(computing) - 1))] - computing[round(0.16 * (len(computing) - 1))]
        return IterationTimes(
            count,
            mean_ns,
            fastest_ns,
            computing_ns,
            float(median(one.beside_ns for one in self._samples)),
            max(1, round(median(one.bursts for one in self._samples))),
            spread_ns / 2 / computing_ns if computing_ns else 0.0,
        )

    def _count(self, facts: JobFacts, now_ns: int, closely: bool) -> None:
        """The iteration counter has moved."""
        assert self._iteration is not None
        passed, ended_ns = facts.iteration - self._iteration, facts.began_ns or now_ns
        if self._iteration >= WARM_UP_ITERATIONS and ended_ns > self._began_ns:
            self._ended.append(_Ended(now_ns, passed, ended_ns - self._began_ns))
            if self._whole and passed == 1 and self._bursts:
                self._samples.append(_Sample(self._computing_ns, self._beside_ns, self._bursts))
        self._iteration, self._began_ns = facts.iteration, ended_ns
        self._sending = False
        self._begin(whole=closely)

    def _follow_announcements(self, facts: JobFacts) -> None:
        if facts.announced_ns > self._announced_ns:
            if self._sending:
                self._beside_ns += facts.announced_ns - self._announced_ns
            else:
                self._burst(facts)
            self._announced_ns = facts.announced_ns
            self._sending = True
        if not facts.outstanding:
            self._sending = False
            # Handed to the kernel is not sent: between bursts the job waits for what it moves, and its peers to it.
            moved_ns = facts.moved_ns - self._ahead_ns if self._bursts and facts.moved_ns else 0
            self._idle_ns = max(self._idle_ns, facts.completed_ns, facts.began_ns, moved_ns)

    def _burst(self, facts: JobFacts) -> None:
        """Begins, after the computing that the last exchange let begin."""
        idle_ns = self._idle_ns
        if idle_ns < facts.began_ns < facts.announced_ns - SAME_MOMENT_NS:
            idle_ns = facts.began_ns  # ended and announced since the last look
        self._computing_ns += max(0, facts.announced_ns - idle_ns)
        self._bursts += 1

    def _follow_movement(self, moved_ns: int) -> None:
        """A launch that waits at the gate counts as moving: the job does not compute."""
        rest_ns = moved_ns - self._moved_ns
        if self._moved_ns and rest_ns >= LEAST_REST_NS:
            self._computing_ns += rest_ns
            self._bursts += 1
        self._moved_ns = moved_ns


def _fastest_ns(ended: list[_Ended], count: int) -> float:
    """Of one iteration. A job may claim any number of them, so that each cannot have an entry of its own."""
    fastest_first = sorted(ended, key=lambda one: one.duration_ns / one.count)
    so_far = accumulate(one.count for one in fastest_first)
    at = next(one for one, passed in zip(fastest_first, so_far, strict=True) if passed > int(FAST * (count - 1)))
    return at.duration_ns / at.count
