"""What an enforcement backend is.

    attach     these are the flow's sockets now         on change
    apply      these flows' limits                      every slot, one batched call
    refresh    devices come and go                      about once a second, and after an error; what could not be done
                                                        when it was asked for is tried again
    watch_losses  sockets that lose packets are helped  several times a second
    watch_others  what others want of the host's link   every slot

Law: jobs end, sockets close and devices vanish at any moment. None of that is hostd's fault, so none of it is raised
into the loop: it comes back as EnforcementError, to be counted. Whatever a backend changes is in the undo log first, so
that guardian and operator can take it back; `close` takes it back here.

Rates count bytes on the wire, Ethernet headers included, as the capacity of a link does. UNLIMITED lifts a limit.
A guarantee of FLOOR_BPS or less is none: what the flow was promised before is free for other flows.

Reading back is how a change by another program is noticed: guarantee ≤ kernel ≤ ceiling. htb has the guarantee itself,
pacing what may be borrowed as well. Neither goes as low as it is asked: htb no lower than a bundle in 16 ms, a fiftieth
of each device's link (htb_device.py), pacing no lower than the floor of each socket. Up to LEAST_PART of the NIC
nothing is said.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from hostd.enforce.errors import EnforcementError
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED

CLOSE = 0.2
LEAST_PART = 0.1

OfJobs = Callable[[], Container[int]]  # connections, by cookie


class Others(NamedTuple):
    """Cross traffic on a device."""

    connections: int = 0  # that have a part of the link, while it is divided between them and flows
    sent_bps: float = 0.0
    load_bps: float = 0.0  # as which that counts (paceline/flowcore/detect/others.py)
    foreign: bool = False  # some of it is of no job that hostd knows


class Backend(Protocol):
    name: str

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        """Controls exactly these sockets of the flow from now on; those that left are as they were before."""

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        """Forgets the flow; its sockets are as they were before."""

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        """Sets them; a flow that is not attached yet gets its limit when it is."""

    def refresh(self) -> list[EnforcementError]:
        """Sets up what appeared, forgets what vanished, controls the sockets that could not be reached before."""

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        """Gives sockets on lossy paths what helps them, and takes it back when they lose no more (transport.py);
        by what was last read of them, by cookie."""

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        """Leaves the traffic of others what TCP would of the host's own links, where the backend is in its way.
        `of_jobs` says which connections are of a job that hostd knows."""

    def others(self) -> dict[str, Others]:
        """What they do on the host's own links, by device, where the backend looks at that."""

    def read_back(self) -> dict[FlowId, Limit]:
        """What the kernel says it holds each attached flow to; a flow without a controlled socket is not there."""

    def close(self) -> list[EnforcementError]:
        """Restores everything."""


def agrees(decided: Limit, kernel_bps: float, nic_bps: float) -> bool:
    """With nothing guaranteed, or a guarantee that was lifted, any rate up to the ceiling will do."""
    guarantee_bps = 0.0 if decided.rate_bps >= UNLIMITED else min(decided.rate_bps, decided.ceiling_bps)
    return (1 - CLOSE) * guarantee_bps <= kernel_bps <= (1 + CLOSE) * max(decided.ceiling_bps, LEAST_PART * nic_bps)
