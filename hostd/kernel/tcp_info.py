"""What a job's sockets really sent, from TCP_INFO.

    sent = tcpi_bytes_acked      bytes the other side has acknowledged

Of the kernel's counters this is the only one that cannot run ahead of the network: `bytes_sent` counts what still
lies in our own queues or was lost, and counts a retransmission twice; `bytes_sent − bytes_retrans` mends the second
only. The price is one round trip of delay. (SYN and FIN count as a byte each: noise.)

A flow's sum starts when a socket is first seen and survives its end: what a job sent before hostd looked is not
reported, and a connection that is closed takes nothing away. What it sent after the last look, at most a slot's worth,
is not counted. A socket that cannot be reached through its descriptor any more may soon be through another.

"""

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from hostd.kernel.pidfd import SocketGone, duplicate_socket
from hostd.kernel.sockets import DataSocket

# Of struct tcp_info, at offsets that have not moved since 4.19: snd_mss at 16, bytes_acked 120, bytes_received 128,
# notsent_bytes 144, bytes_retrans 208. An older kernel returns fewer bytes.
_INFO = struct.Struct("=16xI100xQQ8xI60xQ")


# Ethernet, IP and TCP headers: 1514 bytes on the wire for 1448 of data (MTU 1500, timestamps).
WIRE_PER_PAYLOAD = 1514 / 1448


class TcpCounters(NamedTuple):
    acked_bytes: int
    received_bytes: int
    waiting_bytes: int  # written by the job, not yet handed to the network
    retransmitted_bytes: int
    mss_bytes: int

    @classmethod
    def of(cls, theirs: socket.SocketType) -> "TcpCounters":
        info = theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size).ljust(_INFO.size, b"\0")
        mss, acked, received, waiting, retransmitted = _INFO.unpack(info)
        return cls(acked, received, waiting, retransmitted, mss)


class FlowMeter:
    """The bytes of one flow over all sockets it ever had."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.waiting_bytes = 0  # at the last reading
        self.lost = 0  # readings of sockets that had gone
        self._before: dict[int, TcpCounters] = {}  # at the last reading, by cookie

    def take_over(self, other: "FlowMeter") -> None:
        """Sockets that the other meter has read so far, and this one will from now on: nothing between is lost."""
        self._before = self._before | other._before

    def read(self, sockets: Iterable[DataSocket]) -> int:
        """Looks at the flow's sockets as they are now; returns the sum. What has gone is counted, not raised."""
        found: dict[int, TcpCounters] = {}
        self.waiting_bytes = 0
        for one in sockets:
            try:
                theirs = duplicate_socket(one.pid, one.fd, one.cookie)
                try:
                    counters = TcpCounters.of(theirs)
                finally:
                    theirs.close()
            except (SocketGone, OSError):
                self.lost += 1
                if one.cookie in self._before:
                    found[one.cookie] = self._before[one.cookie]
                continue
            before = self._before.get(one.cookie, counters)
            found[one.cookie] = counters
            self.sent_bytes += counters.acked_bytes - before.acked_bytes
            self.received_bytes += counters.received_bytes - before.received_bytes
            self.waiting_bytes += counters.waiting_bytes
        self._before = found
        return self.sent_bytes
