"""throttle: what a process sends to a peer is paced by the NCCL net plugin in it (nccl_shim/csrc/net), by its page.

    rate of a process to an address  =  what its flow may send (pacing.borrowing) / (processes × addresses of the flow)

in bytes of payload. Law: as for pacing, but no socket is touched: what carries the bytes is the job's affair. A process
without the plugin reads no rates, and is not paced. Peers are known by the addresses of the job's sockets, and of a job
that has none, as over RDMA, by those that its plugin counts. Nothing is in the undo log: pages end with their
heartbeat.
"""

from collections.abc import Mapping, Sequence

from hostd.enforce.base import OfJobs, Others
from hostd.enforce.errors import EnforcementError, ErrorKind
from hostd.enforce.pacing import PACING_FLOOR_BPS, borrowing
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD, TcpCounters
from hostd.pages.pages import Pages
from nccl_shim.page.layout import Entry, State, peer_bytes
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import BITS_PER_BYTE, UNLIMITED


class ThrottleBackend:
    name = "throttle"

    def __init__(self, pages: Pages, host_bps: float) -> None:
        self._pages, self._host_bps = pages, host_bps
        self._limits: dict[FlowId, Limit] = {}
        self._sockets: dict[FlowId, frozenset[tuple[int, str]]] = {}  # of attached flows: process and address
        self._told: frozenset[int] = frozenset()  # processes with rates

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        self._sockets[flow] = frozenset((one.pid, one.remote) for one in sockets)
        self._tell()
        return []

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._sockets.pop(flow, None)
        self._limits.pop(flow, None)
        self._tell()
        return []

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        self._limits |= {limit.flow: limit for limit in limits}
        self._tell()
        return []

    def refresh(self) -> list[EnforcementError]:
        self._tell()
        reason = "throttle: no process of the job has registered, so that none can be told a rate"
        return [EnforcementError(ErrorKind.OTHER, reason, flow) for flow in self._sockets if not self._is_heard(flow)]

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        return []

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        return []

    def others(self) -> dict[str, Others]:
        return {}

    def read_back(self) -> dict[FlowId, Limit]:
        """What the pages say."""
        return {flow: Limit(flow, bps, bps) for flow, bps in self._rates_bps().items() if self._is_heard(flow)}

    def close(self) -> list[EnforcementError]:
        self._limits.clear()
        self._sockets.clear()
        self._tell()
        return []

    def _peers(self, flow: FlowId) -> frozenset[tuple[int, str]]:
        return self._sockets[flow] or self._pages.jobs.peers_of(flow.job, flow.target)

    def _is_heard(self, flow: FlowId) -> bool:
        return any(pid in self._pages for pid, _ in self._peers(flow))

    def _rates_bps(self) -> dict[FlowId, float]:
        limits = [self._limits.get(flow, Limit(flow, UNLIMITED, UNLIMITED)) for flow in self._sockets]
        return dict(zip(self._sockets, borrowing(limits, self._host_bps), strict=True))

    def _tell(self) -> None:
        entries: dict[int, list[Entry]] = {}
        for flow, bps in self._rates_bps().items():
            peers = self._peers(flow)
            if bps >= UNLIMITED or not peers:
                continue
            rate = max(bps, PACING_FLOOR_BPS) / len(peers) / BITS_PER_BYTE / WIRE_PER_PAYLOAD
            for pid, address in sorted(peers):
                entries.setdefault(pid, []).append(Entry(peer_bytes(address), State.RATE, 0, rate))
        for pid in self._told | entries.keys():
            self._pages.write(pid, entries.get(pid, []))
        self._told = frozenset(entries)
