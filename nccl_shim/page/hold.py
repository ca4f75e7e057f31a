"""How long a burst waits. Law: for hostd's answer no longer than 2 slots; for its turn no longer than 2 slots beyond
the moment that was named first; for one after the other no longer than 2 s in all, and not again before the page has
said open: a page that always says "later" costs a job 2 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nccl_shim.page.decision import Answer
from nccl_shim.page.layout import HOLD_SLOTS, MOST_HOLD_NS, State

LOOK_NS = 1_000_000  # between two looks at the page while a burst waits


class Hold:
    """One flow's waiting. nccl_shim/csrc/page/hold.c is the same in C."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._limit_ns = 0  # when this wait ends, whatever the page says; 0: none has begun
        self._state = State.OPEN  # with which the limit was set
        self.spent = False  # it has ended so: the page is not heard until it says open

    def remaining_ns(self, answer: Answer, now_ns: int) -> int:
        """How long to wait by what the page says now; 0: go."""
        if answer.state not in (State.HELD, State.ASK):
            self._limit_ns, self._state, self.spent = 0, State.OPEN, False
            return 0
        if self.spent:
            return 0
        if self._limit_ns == 0:
            self._began_ns = now_ns
        if self._state != answer.state:
            beyond_ns = HOLD_SLOTS * answer.slot_ns if answer.state == State.HELD else 0
            self._limit_ns = min(answer.until_ns + beyond_ns, self._began_ns + MOST_HOLD_NS)
            self._state = answer.state
        if now_ns >= self._limit_ns:
            self._limit_ns, self._state, self.spent = 0, State.OPEN, True
            return 0
        return max(0, min(answer.until_ns, self._limit_ns) - now_ns)


def wait(
    hold: Hold,
    look: Callable[[], Answer],
    clock_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Waits while the page says so, looking at it every millisecond; returns the ns waited."""
    began_ns = now_ns = clock_ns()
    while (remaining_ns := hold.remaining_ns(look(), now_ns)) > 0:
        sleep(min(remaining_ns, LOOK_NS) / 1e9)
        now_ns = clock_ns()
    return now_ns - began_ns
