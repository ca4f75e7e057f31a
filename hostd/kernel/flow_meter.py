"""What a flow has sent, over all sockets it ever had.

A flow's sum starts when a socket is first seen and survives its end: what a job sent before hostd looked is not
reported, and a connection that is closed takes nothing away. What it sent after the last look, at most a slot's worth,
is not counted. A socket that cannot be reached through its descriptor any more may soon be through another. Where there
is no answer yet (calls.py), what was last known holds, and `late` says so.
"""

from collections.abc import Sequence

from hostd.kernel.calls import Counters, Held, NotAnswered, counters_of
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters


class FlowMeter:
    """The bytes of one flow over all sockets it ever had."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.waiting_bytes = 0  # at the last reading
        self.lost = 0  # readings of sockets that had gone
        self.late = False  # an answer of the last reading is still to come
        self.last_read: dict[int, TcpCounters] = {}  # by cookie

    def take_over(self, other: "FlowMeter") -> None:
        """Sockets that the other meter has read so far, and this one will from now on: nothing between is lost."""
        self.last_read = self.last_read | other.last_read

    def read(self, sockets: Sequence[DataSocket]) -> int:
        """Looks at the flow's sockets as they are now; returns the sum. What has gone is counted, not raised."""
        return self.take(sockets, counters_of(sockets))

    def take(self, sockets: Sequence[DataSocket], answers: Sequence[Counters]) -> int:
        """The same where they have been looked at already."""
        found: dict[int, TcpCounters] = {}
        self.waiting_bytes = 0
        self.late = any(isinstance(one, NotAnswered) and not isinstance(one, Held) for one in answers)
        for one, counters in zip(sockets, answers, strict=True):
            before = self.last_read.get(one.cookie)
            if not isinstance(counters, TcpCounters):
                if not isinstance(counters, NotAnswered):
                    self.lost += 1
                elif before is not None:
                    self.waiting_bytes += before.waiting_bytes
                if before is not None:
                    found[one.cookie] = before
                continue
            before = before or counters
            found[one.cookie] = counters
            self.sent_bytes += counters.acked_bytes - before.acked_bytes
            self.received_bytes += counters.received_bytes - before.received_bytes
            self.waiting_bytes += counters.waiting_bytes
        self.last_read = found
        return self.sent_bytes
