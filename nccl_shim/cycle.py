"""Iterations of a job that does not announce them, from the repetition of its calls.

Law: an iteration is one turn of the cycle of calls. The first call ever made leads; a new turn begins when it
comes again, with nothing outstanding and another kind of call (or a reply with payload) seen in between. So
chunked, pipelined and many-server patterns are one turn each:

    push s0, push s1, pull s0, pull s1 | push s0, …
    push c0, push c1, pull c0, push c2, … (overlapping: outstanding) | push c0, …
    exchange s0 (gradients there, parameters back) | exchange s0, …
"""

from collections.abc import Hashable


class CallCycle:
    """`started` says whether a new turn begins with this call."""

    def __init__(self) -> None:
        self._leader: Hashable | None = None
        self._outstanding = 0
        self._turned = False  # something other than the leader's request has happened in this turn

    def started(self, call: Hashable) -> bool:
        """A call goes out; returns True when it is the first of a new turn."""
        if self._leader is None:
            self._leader = call
        new_turn = call == self._leader and self._turned and self._outstanding == 0
        self._turned = call != self._leader or (self._turned and not new_turn)
        self._outstanding += 1
        return new_turn

    def finished(self, reply_bytes: int) -> None:
        """A call came back with this much payload."""
        self._outstanding = max(0, self._outstanding - 1)
        if reply_bytes > 0:
            self._turned = True
