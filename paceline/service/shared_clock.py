"""The time that all daemons share: a machine's own clock, corrected by what its switch says.

`own_ns` is the wall clock at the start, carried on by the monotonic clock: a step of the wall clock cannot stop a slot.
`now_ns` adds the offset to the peer's clock (flowcore/detect/clocks.py). An estimate that improves by −1 ms holds time
for a millisecond instead of turning it back; an offset of more than STEP_NS, as at the first answer of a switch with
another clock, is stepped to: holding the clock for so long would be worse. `take_step` says by how much, to a caller
that has dates from before the step.
"""

import time
from collections.abc import Callable

from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.model.units import NS_PER_MS

STEP_NS = 50 * NS_PER_MS


class SharedClock:
    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.peer = ClockEstimate()
        self._steady_ns = steady_ns
        self._anchor_ns = wall_ns() - steady_ns()
        self._last_ns = self._last_own_ns = 0
        self._step_ns = 0

    def own_ns(self) -> int:
        return self._anchor_ns + self._steady_ns()

    def now_ns(self) -> int:
        own_ns = self.own_ns()
        now_ns = own_ns + self.peer.offset_ns(own_ns)
        if self._last_ns - STEP_NS <= now_ns < self._last_ns:
            return self._last_ns
        jump_ns = (now_ns - self._last_ns) - (own_ns - self._last_own_ns)
        if self._last_ns and abs(jump_ns) > STEP_NS:
            self._step_ns += jump_ns
        self._last_ns, self._last_own_ns = now_ns, own_ns
        return now_ns

    def take_step(self) -> int:
        """By how much time has jumped since the last call."""
        self.now_ns()
        step_ns, self._step_ns = self._step_ns, 0
        return step_ns
