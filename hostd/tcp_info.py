"""What a job's sockets really sent, from TCP_INFO.

    sent = tcpi_bytes_acked      bytes the other side has acknowledged

Of the kernel's counters this is the only one that cannot run ahead of the network: `bytes_sent` counts what still
lies in our own queues or was lost, and counts a retransmission twice; `bytes_sent − bytes_retrans` mends the second
only. The price is one round trip of delay. (SYN and FIN count as a byte each: noise.)

A flow's sum starts when a socket is first seen and survives its end: what a job sent before we looked is not ours to
report, and a connection that is closed takes nothing away. What it sent after the last look, at most a slot's worth,
is lost to the books.
"""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from hostd.borrow import Gone, borrowed
from hostd.sockets import DataSocket

# struct tcp_info, offsets that have not moved since 4.19; an older kernel returns fewer bytes.
_STATE_AT, _SND_MSS_AT, _RTT_US_AT = 0, 16, 68
_ACKED_AT, _RECEIVED_AT, _NOTSENT_AT, _RETRANS_AT = 120, 128, 144, 208
_INFO_BYTES = 216
TCP_ESTABLISHED, TCP_CLOSE_WAIT = 1, 8


@dataclass(frozen=True, slots=True)
class TcpCounters:
    sending: bool  # the connection is open in our direction
    acked_bytes: int
    received_bytes: int
    waiting_bytes: int  # written by the job, not yet handed to the network
    retransmitted_bytes: int
    rtt_us: int
    mss_bytes: int

    @classmethod
    def of(cls, theirs: socket.socket) -> "TcpCounters":
        info = theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES).ljust(_INFO_BYTES, b"\0")
        [mss_bytes] = struct.unpack_from("=I", info, _SND_MSS_AT)
        [rtt_us] = struct.unpack_from("=I", info, _RTT_US_AT)
        [acked_bytes] = struct.unpack_from("=Q", info, _ACKED_AT)
        [received_bytes] = struct.unpack_from("=Q", info, _RECEIVED_AT)
        [waiting_bytes] = struct.unpack_from("=I", info, _NOTSENT_AT)
        [retransmitted_bytes] = struct.unpack_from("=Q", info, _RETRANS_AT)
        sending = info[_STATE_AT] in (TCP_ESTABLISHED, TCP_CLOSE_WAIT)
        return cls(sending, acked_bytes, received_bytes, waiting_bytes, retransmitted_bytes, rtt_us, mss_bytes)


class FlowMeter:
    """The bytes of one flow over all sockets it ever had."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self.waiting_bytes = 0  # at the last reading
        self.rtt_us = 0  # the largest at the last reading
        self.lost = 0  # readings of sockets that had gone
        self._before: dict[int, TcpCounters] = {}  # at the last reading, by cookie

    def read(self, sockets: Iterable[DataSocket]) -> int:
        """Looks at the flow's sockets as they are now; returns the sum. What has gone is counted, not raised."""
        found: dict[int, TcpCounters] = {}
        self.waiting_bytes = self.rtt_us = 0
        for one in sockets:
            try:
                with borrowed(one.pid, one.fd, one.cookie) as theirs:
                    counters = TcpCounters.of(theirs)
            except (Gone, OSError):
                self.lost += 1
                continue
            before = self._before.get(one.cookie, counters)
            found[one.cookie] = counters
            self.sent_bytes += counters.acked_bytes - before.acked_bytes
            self.received_bytes += counters.received_bytes - before.received_bytes
            self.waiting_bytes += counters.waiting_bytes
            self.rtt_us = max(self.rtt_us, counters.rtt_us)
        self._before = found
        return self.sent_bytes
