"""gate: a burst's launch waits for its turn, on any transport; no rate is set.

Which jobs wait, flowcore/host/launches.py decides; here it is written on the pages of their processes, one entry each.
Where hosts of a job differ (a message late, a host that decides alone), the rank that is open launches and its
collective waits for the rank that is held, no longer than nccl_shim/page/hold.py lets that one wait.

Only the launch is held (nccl_shim/page/gate.py): a job that loses its turn in the middle of a burst shares its links
with the next one, as TCP would have it. Nothing is in the undo log: pages end with their heartbeat.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from hostd.enforce.base import OfJobs, Others
from hostd.enforce.errors import EnforcementError, ErrorKind
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.pages.pages import Pages
from nccl_shim.page.layout import ANY_PEER, Entry, State
from paceline.flowcore.host.launches import Launch, Launches
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED

LATEST_TURN_NS = 1_500_000_000  # less than any hold may last
RENEWED_NS = 500_000_000  # so old it may be
STATES = {Launch.HELD: State.HELD, Launch.ASK: State.ASK}


class GateBackend:
    name = "gate"

    def __init__(
        self, pages: Pages, nic_bps: float, host_bps: float, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._pages, self._clock_ns = pages, clock_ns
        self._launches = Launches(pages.slot_ns, nic_bps, host_bps)
        self._limits: dict[FlowId, Limit] = {}
        self._flows: set[FlowId] = set()  # attached
        self._held_until_ns: dict[str, int] = {}

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        self._flows.add(flow)
        return self._tell()

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._flows.discard(flow)
        self._limits.pop(flow, None)
        if not any(one.job == flow.job for one in self._flows):
            self._open(flow.job)
        return self._tell()

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        self._limits |= {limit.flow: limit for limit in limits}
        return self._tell()

    def refresh(self) -> list[EnforcementError]:
        """A process that has come since hears it, too, and what was said is not old."""
        reason = "gate: no process of the job has registered, so that none can be told to wait"
        unheard = [flow for flow in self._flows if not self._processes(flow.job)]
        return self._tell() + [EnforcementError(ErrorKind.OTHER, reason, flow) for flow in unheard]

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        """No losses, but bursts that have ended, which no limit tells."""
        return self._tell()

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        return []

    def others(self) -> dict[str, Others]:
        return {}

    def read_back(self) -> dict[FlowId, Limit]:
        """No rate is set: what was decided is what its job has been told, if it can be."""
        told = {job for job in {flow.job for flow in self._flows} if self._processes(job)}
        none = {flow: Limit(flow, UNLIMITED, UNLIMITED) for flow in self._flows}
        return {flow: self._limits.get(flow, none[flow]) for flow in self._flows if flow.job in told}

    def close(self) -> list[EnforcementError]:
        for job in {flow.job for flow in self._flows}:
            self._open(job)
        self._flows.clear()
        self._limits.clear()
        return []

    def _processes(self, job: str) -> list[int]:
        return [pid for pid in self._pages.jobs.processes_of(job) if pid in self._pages]

    def _open(self, job: str) -> None:
        self._launches.forget(job)
        self._held_until_ns.pop(job, None)
        for pid in self._processes(job):
            self._pages.write(pid, [])

    def _tell(self) -> list[EnforcementError]:
        now_ns = self._clock_ns()
        present = [limit for flow, limit in self._limits.items() if flow in self._flows]
        live = [job for job in dict.fromkeys(limit.flow.job for limit in present) if self._pages.jobs.is_live(job)]
        for job, launch in self._launches.decide(present, live, now_ns).items():
            state = STATES.get(launch)
            entries = [] if state is None else [Entry(ANY_PEER, state, self._until_ns(job, state, now_ns))]
            for pid in self._processes(job):
                self._pages.write(pid, entries)
        return []

    def _until_ns(self, job: str, state: State, now_ns: int) -> int:
        """Not another moment every time: its readers would read the page again."""
        until_ns = self._held_until_ns.get(job, 0)
        if state is State.HELD and until_ns < now_ns + LATEST_TURN_NS - RENEWED_NS:
            until_ns = self._held_until_ns[job] = now_ns + LATEST_TURN_NS
        return until_ns if state is State.HELD else 0
