"""Iterations of a job that does not announce them, from the repetition of its calls.

Law: an iteration is one round of the cycle of calls. The first call ever made leads; a new round begins when it
comes again, with nothing outstanding and another kind of call (or a reply with payload) seen in between. So
chunked, pipelined and many-server patterns are one round each:

    push s0, push s1, pull s0, pull s1 | push s0, …
    push c0, push c1, pull c0, push c2, … (overlapping: outstanding) | push c0, …
    exchange s0 (gradients there, parameters back) | exchange s0, …

A round is over when as many calls have come back as the last one had, so that computing, which comes next, is not
counted as exchange. The first round, and one with fewer calls, is over when the next begins.
"""

from __future__ import annotations

from collections.abc import Hashable


class CallCycle:
    """`started` and `finished` say whether a round is over with that, once for each."""

    def __init__(self) -> None:
        self._leader: Hashable | None = None
        self._outstanding = 0
        self._past_leader = False  # something other than the leader's request has happened in this round
        self._calls = 0  # in this round
        self._expected = 0  # calls of the last round
        self._over = False  # this round; what else may come belongs to it

    def started(self, call: Hashable) -> bool:
        """A call goes out."""
        if self._leader is None:
            self._leader = call
        new_round = call == self._leader and self._past_leader and self._outstanding == 0
        is_over = new_round and not self._over
        if new_round:
            self._expected, self._calls, self._over = self._calls, 0, False
        self._past_leader = call != self._leader or (self._past_leader and not new_round)
        self._outstanding += 1
        self._calls += 1
        return is_over

    def finished(self, reply_bytes: int) -> bool:
        """A call came back with this much payload."""
        self._outstanding = max(0, self._outstanding - 1)
        if reply_bytes > 0:
            self._past_leader = True
        is_over = not self._over and self._outstanding == 0 and self._calls == self._expected
        self._over = self._over or is_over
        return is_over
