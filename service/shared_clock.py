"""The time that all daemons share: a machine's own clock, corrected by what its switch says.

`own_ns` is the wall clock at the start, carried on by the monotonic clock: nobody's step of the wall clock can stop a
slot. `now_ns` adds the estimated offset to the peer we follow (clocksync.py) and never goes back: an estimate that
improves by −1 ms holds time for a millisecond instead.
"""

import time

from flowcore.clocksync import ClockEstimate


class SharedClock:
    def __init__(self) -> None:
        self.peer = ClockEstimate()
        self._anchor_ns = time.time_ns() - time.monotonic_ns()
        self._last_ns = 0

    def own_ns(self) -> int:
        return self._anchor_ns + time.monotonic_ns()

    def now_ns(self) -> int:
        own_ns = self.own_ns()
        self._last_ns = max(self._last_ns, own_ns + self.peer.offset_ns(own_ns))
        return self._last_ns
