"""What a controlled socket gets besides its rate: how it answers congestion, and how soon it notices a loss.

Linux waits at least 200 ms before it sends again what was not acknowledged. Between hosts of one cluster that is a
thousand round trips, and as long as a burst: one lost last packet, and all workers wait for it. A tail loss probe
of a single packet waits as long. Since Linux 6.15 a socket can be given another least time; older kernels keep theirs.

And cubic takes every loss for a full queue and slows down. bbr does not, but where several flows of a job meet, as
before a parameter server, its probing fills the queue and loses more than it gains: bbr is for flows by themselves.

Only where packets are lost (flowcore.detect.losses): a packet also goes unacknowledged while it waits in hostd's own
queue for its turn, and TCP begins each pause of that length with a small window. And only where it is shorter than what
the socket has: an operator may have chosen that (`net.ipv4.tcp_rto_min_us`).

"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

from hostd.kernel.calls import Reach, get_option, set_option

Option = tuple[int, int]  # level and name, as for setsockopt

TCP_CONGESTION: Option = (socket.IPPROTO_TCP, 13)
TCP_RTO_MIN_US: Option = (socket.IPPROTO_TCP, 45)
KERNEL_MIN_RTO_MS = 200.0
LOSSY_CONGESTION_CONTROL = b"bbr"


@dataclass(frozen=True, slots=True)
class Transport:
    """As the kernel has it, where nothing else is said."""

    congestion_control: str | None = None
    min_rto_ms: float = KERNEL_MIN_RTO_MS  # the least time before something is sent again

    def always(self) -> dict[Option, bytes]:
        return {TCP_CONGESTION: self.congestion_control.encode()} if self.congestion_control else {}

    def where_lossy(self, by_itself: bool) -> dict[Option, bytes]:
        """If this kernel can; `by_itself`: the flow meets no other of its job."""
        found = {}
        for wait_ms in _waits_ms(self.min_rto_ms):
            value = round(wait_ms * 1e3).to_bytes(4, "little")
            if _accepted(TCP_RTO_MIN_US, value):
                found[TCP_RTO_MIN_US] = value
                break
        wanted = by_itself and self.congestion_control is None and self.min_rto_ms < KERNEL_MIN_RTO_MS
        if wanted and _accepted(TCP_CONGESTION, LOSSY_CONGESTION_CONTROL):
            found[TCP_CONGESTION] = LOSSY_CONGESTION_CONTROL
        return found


AS_THE_KERNEL = Transport()


def shortens(one: Reach, value: bytes) -> bool:
    """Whether a wait becomes shorter by it, and the kernel would take back the one it has now.

    A sysctl may give sockets less than two ticks, or more than KERNEL_MIN_RTO_MS: a setsockopt may not. Raises
    SocketGone, or OSError where the socket cannot be asked.
    """
    now = get_option(one, *TCP_RTO_MIN_US, len(value))
    if int.from_bytes(now, "little") <= int.from_bytes(value, "little"):
        return False
    try:
        set_option(one, *TCP_RTO_MIN_US, now)
    except OSError:
        return False
    return True


def _waits_ms(wanted_ms: float) -> Iterator[float]:
    """The least a kernel takes is two of its ticks, of 1 to 10 ms."""
    wait_ms = wanted_ms
    while wait_ms < KERNEL_MIN_RTO_MS:
        yield wait_ms
        wait_ms *= 2


def _accepted(option: Option, value: bytes) -> bool:
    with socket.socket() as own:
        try:
            own.setsockopt(*option, value)
        except OSError:
            return False
    return True
