"""What a job's sockets really sent, from TCPINFO.

    sent = tcpi_bytes_acked      bytes the other side has acknowledged

Of the kernel's counters this is the only one that cannot run ahead of the network: `bytes_sent` counts what still
lies in our own queues or was lost, and counts a retransmission twice; `bytes_sent − bytes_retrans` mends the second
only. The price is one round trip of delay. (SYN and FIN count as a byte each: noise.)
"""

import socket
import struct
from typing import NamedTuple

# Of struct tcp_info, at offsets that have not moved since 4.19: snd_mss at 16, bytes_acked 120, bytes_received 128,
# notsent_bytes 144, bytes_retrans 208. An older kernel returns fewer bytes.
INFO = struct.Struct("=16xI100xQQ8xI60xQ")


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
        info = theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size).ljust(INFO.size, b"\0")
        mss, acked, received, waiting, retransmitted = INFO.unpack(info)
        return cls(acked, received, waiting, retransmitted, mss)
