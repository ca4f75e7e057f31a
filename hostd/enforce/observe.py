"""observe: nothing is enforced. Law: it touches no socket and no device."""

from collections.abc import Mapping, Sequence

from hostd.enforce.base import OfJobs, Others
from hostd.enforce.errors import EnforcementError
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED


class ObserveBackend:
    name = "observe"

    def __init__(self) -> None:
        self._flows: set[FlowId] = set()

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        self._flows.add(flow)
        return []

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._flows.discard(flow)
        return []

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        return []

    def refresh(self) -> list[EnforcementError]:
        return []

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        return []

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        return []

    def others(self) -> dict[str, Others]:
        return {}

    def read_back(self) -> dict[FlowId, Limit]:
        return {flow: Limit(flow, UNLIMITED, UNLIMITED) for flow in self._flows}

    def close(self) -> list[EnforcementError]:
        self._flows.clear()
        return []
