"""Where within its iteration a job comes to rest: the end of each of its bursts.

    rest       nothing moves, although the iteration is not over: the job computes (or waits for another member)
    stop       a rest at the same bytes in AGREEING iterations in a row; forgotten after as many without it
    scattered  iteration after iteration rests at bytes at which none was before: no telling what the next one holds

A job with several bursts an iteration needs its links for a part of it; its stops say for which. A rest is a fact about
one moment and may have other reasons; a stop repeats because it is in the program. Volumes are counted from the
iteration's beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.flowcore.demand.facts import Ends

AGREEING = 2
SAME = 0.003  # of an iteration: rests so close are one
MOST_RESTS = 64  # in an iteration; more is chatter
# Rests that are in no other iteration come and go where the job waits for other members; many, again and again, are
# a job without a pattern.
MOST_ODD, SCATTERED_ITERATIONS = 8, 4

Sizes = Mapping[Ends, float]


@dataclass(slots=True)
class Stop:
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
        self._stops: list[Stop] = []
        self._rests: list[Stop] = []  # of this iteration
        self._odd = 0  # iterations in a row with rests where none was before
        self._iterations = 0

    @property
    def stops(self) -> list[Stop]:
        return [stop for stop in self._stops if stop.seen >= AGREEING]

    @property
    def scattered(self) -> bool:
        return self._odd >= SCATTERED_ITERATIONS

    @property
    def learning(self) -> bool:
        """Its rests must be looked for: a look that comes late misses them."""
        return self._iterations <= AGREEING or self._odd > 0 or any(stop.seen < AGREEING for stop in self._stops)

    def rested(self, sent_bytes: Sizes) -> None:
        """Nothing moves at this point of the iteration, and more is to come."""
        if any(rest.same(sent_bytes, self.sizes) for rest in self._rests[-1:]) or len(self._rests) > MOST_RESTS:
            return
        if any(sent_bytes.get(ends, 0.0) > SAME * size for ends, size in self.sizes.items()):
            self._rests.append(Stop(dict(sent_bytes)))

    def next_stop(self, sent_bytes: Sizes) -> Stop | None:
        """None: the end of the iteration."""
        return next((stop for stop in self.stops if stop.lies_ahead(sent_bytes, self.sizes)), None)

    def iteration_ended(self) -> None:
        rests, self._rests = self._rests, []
        self._iterations += 1
        odd = len(rests) > MOST_RESTS
        for stop in self._stops:
            if found := [rest for rest in rests if rest.same(stop.sent_bytes, self.sizes)]:
                rests.remove(found[0])
                stop.seen, stop.missed = stop.seen + 1, 0
            else:
                stop.missed += 1
        odd |= len(rests) > MOST_ODD and self._iterations > 1
        self._odd = self._odd + 1 if odd else 0
        self._stops = [stop for stop in self._stops if stop.missed < AGREEING] + rests
        self._stops.sort(key=lambda stop: sum(stop.sent_bytes.values()))
