"""How closely jobs are looked at. Law: looking takes no more than a small part of a core, however many jobs there are
and however slow the machine is; what it costs then is that a burst is noticed later.

    s  ←  s · √(used / MOST_LOOKING), within 1 and MOST_STRETCHED        every PERIOD_NS
    looks are s · LOOK_NS apart, where they would be LOOK_NS

`used` is the part of a core that looks took since the last time. The root makes it settle without overshooting.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt

from hostd.monitor.poll_schedule import LOOK_NS
from paceline.flowcore.model.units import NS_PER_S

MOST_LOOKING = 0.015
MOST_STRETCHED = 5.0  # 10 ms: less than a fifth of a slot
PERIOD_NS = NS_PER_S // 2


class LookBudget:
    def __init__(self) -> None:
        self.look_ns = LOOK_NS  # between two looks where something may happen
        self._stretch = 1.0
        self._since_ns: int | None = None
        self._spent_ns = 0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """What is done inside is looking."""
        began_ns = time.thread_time_ns()
        try:
            yield
        finally:
            self._spent_ns += time.thread_time_ns() - began_ns

    def update(self, now_ns: int) -> None:
        """Often."""
        if self._since_ns is None:
            self._since_ns = now_ns
        elif (passed_ns := now_ns - self._since_ns) >= PERIOD_NS:
            self.spent(self._spent_ns / passed_ns)
            self._since_ns, self._spent_ns = now_ns, 0

    def spent(self, part: float) -> None:
        """Looks took this part of a core lately."""
        self._stretch = min(max(1.0, self._stretch * sqrt(part / MOST_LOOKING)), MOST_STRETCHED)
        self.look_ns = round(self._stretch) * LOOK_NS
