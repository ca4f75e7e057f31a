"""Where within its iteration a job comes to rest: the end of each of its bursts.

    rest       nothing moves, although the iteration is not over: the job computes (or waits for another member)
    stop       a rest at the same bytes in AGREEING iterations in a row; forgotten after as many without it
    overlap    the job announced what lies beyond a stop before the bytes up to it had gone: it computes while it sends,
               and its exchange is one burst, however it is cut
    scattered  iteration after iteration rests at bytes at which none was before: no telling what the next one holds

A job that gathers, computes and scatters (FSDP), or that exchanges within its layers (tensor parallelism, mixture of
experts), needs its links for a part of the iteration; its stops say for which. A rest is a fact about one moment and
may have other reasons; a stop repeats because it is in the program. Volumes are counted from the iteration's beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.flowcore.demand.facts import Ends

AGREEING = 2
SAME = 0.003  # of an iteration: rests so close are one
MOST_RESTS = 64  # in an iteration; more is chatter
OVERLAP_ITERATIONS = 16  # for so long overlap is remembered: without contention it does not show
SCATTERED_ITERATIONS = 4

Sizes = Mapping[Ends, float]


@dataclass(slots=True)
class Stop:
    announced_bytes: float
    sent_bytes: Sizes
    seen: int = 1  # iterations in a row with it ...
    missed: int = 0  # ... and without it since

    def same(self, sent_bytes: Sizes, sizes: Sizes) -> bool:
        return all(
            abs(sent_bytes.get(ends, 0.0) - self.sent_bytes.get(ends, 0.0)) <= SAME * size
            for ends, size in sizes.items()
        )

    def lies_ahead(self, sent_bytes: Sizes, sizes: Sizes) -> bool:
        """Some flow has yet to come there."""
        return any(
            sent_bytes.get(ends, 0.0) < self.sent_bytes.get(ends, 0.0) - SAME * size for ends, size in sizes.items()
        )


class Profile:
    """Of iterations of these sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.most_odd = 1  # rests in an iteration that were in none before
        self._stops: list[Stop] = []
        self._rests: list[Stop] = []  # of this iteration
        self._overlapping = 0  # iterations for which overlap is remembered
        self._odd = 0  # iterations in a row with rests where none was before
        self._iterations = 0

    @property
    def stops(self) -> list[Stop]:
        return [stop for stop in self._stops if stop.seen >= AGREEING]

    @property
    def overlaps(self) -> bool:
        return self._overlapping > 0

    @property
    def scattered(self) -> bool:
        return self._odd >= SCATTERED_ITERATIONS and not self.overlaps

    @property
    def learning(self) -> bool:
        """Its rests must be looked for: a look that comes late misses them."""
        return self._iterations <= AGREEING or self._odd > 0 or any(stop.seen < AGREEING for stop in self._stops)

    def rested(self, announced_bytes: float, sent_bytes: Sizes) -> None:
        """Nothing moves at this point of the iteration, and more is to come."""
        if any(rest.same(sent_bytes, self.sizes) for rest in self._rests[-1:]) or len(self._rests) > MOST_RESTS:
            return
        if any(sent_bytes.get(ends, 0.0) > SAME * size for ends, size in self.sizes.items()):
            self._rests.append(Stop(announced_bytes, dict(sent_bytes)))

    def announced(self, announced_bytes: float, sent_bytes: Sizes) -> None:
        """So much has been announced in this iteration, when so much had been sent."""
        for stop in self.stops:
            if announced_bytes > stop.announced_bytes and stop.lies_ahead(sent_bytes, self.sizes):
                self._overlapping = OVERLAP_ITERATIONS

    def next_stop(self, announced_bytes: float, sent_bytes: Sizes) -> Stop | None:
        """Where the bytes announced so far end; None: with the iteration."""
        if self.overlaps:
            return None
        for stop in self.stops:
            if stop.announced_bytes >= announced_bytes and stop.lies_ahead(sent_bytes, self.sizes):
                return stop
        return None

    def iteration_ended(self) -> None:
        rests, self._rests = self._rests, []
        self._overlapping = max(0, self._overlapping - 1)
        self._iterations += 1
        odd = len(rests) > MOST_RESTS
        for stop in self._stops:
            if found := [rest for rest in rests if rest.same(stop.sent_bytes, self.sizes)]:
                rests.remove(found[0])
                stop.seen, stop.missed = stop.seen + 1, 0
            else:
                stop.missed += 1
        # Rests that are in no other iteration come and go where the job waits for other members; many are a pattern.
        odd |= len(rests) > self.most_odd and self._iterations > 1
        self._odd = self._odd + 1 if odd else 0
        self._stops = [stop for stop in self._stops if stop.missed < AGREEING] + rests
        self._stops.sort(key=lambda stop: sum(stop.sent_bytes.values()))
