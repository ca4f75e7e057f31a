"""What a socket we control gets besides its rate: how it answers congestion, and how soon it notices a loss.

Linux waits at least 200 ms before it sends again what nobody acknowledged. Between hosts of one cluster that is a
thousand round trips, and as long as a burst: one lost last packet, and all workers wait for it. A tail loss probe
of a single packet waits as long. Since Linux 6.15 a socket can be given another least time; older kernels keep theirs.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

Option = tuple[int, int]  # level and name, as for setsockopt

TCP_CONGESTION: Option = (socket.IPPROTO_TCP, 13)
TCP_RTO_MIN_US: Option = (socket.IPPROTO_TCP, 45)
KERNEL_RETRANSMIT_MS = 200.0


@dataclass(frozen=True, slots=True)
class Transport:
    """As the kernel has it, where nothing else is said."""

    congestion_control: str | None = None
    retransmit_ms: float = KERNEL_RETRANSMIT_MS  # the least time before something is sent again

    def settings(self) -> dict[Option, bytes]:
        """Options that this kernel has, with their values."""
        found = {TCP_CONGESTION: self.congestion_control.encode()} if self.congestion_control else {}
        for wait_ms in _waits_ms(self.retransmit_ms):
            value = round(wait_ms * 1e3).to_bytes(4, "little")
            if _accepted(TCP_RTO_MIN_US, value):
                return {**found, TCP_RTO_MIN_US: value}
        return found


AS_THE_KERNEL = Transport()


def _waits_ms(wanted_ms: float) -> Iterator[float]:
    """The least a kernel takes is two of its ticks, of 1 to 10 ms."""
    wait_ms = wanted_ms
    while wait_ms < KERNEL_RETRANSMIT_MS:
        yield wait_ms
        wait_ms *= 2


def _accepted(option: Option, value: bytes) -> bool:
    with socket.socket() as own:
        try:
            own.setsockopt(*option, value)
        except OSError:
            return False
    return True
