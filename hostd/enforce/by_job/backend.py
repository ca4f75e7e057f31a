"""auto, job by job: each has the first backend that reaches it.

    its sockets are in hostd's network namespace     the host's: htb, or pacing where HTB would not do (probe.py)
    some are in another one                          pacing, which needs the socket and no device
    none carries its data, our net plugin counts it  throttle, which paces what NCCL hands to its transport
    it has none                                      gate: a launch can be held, whatever carries the bytes

Law: jobs of different backends share the host's links as those of one. What a backend cannot know, the guarantees g of
the other backends' jobs, is taken off the ceilings that it is told, of NICs that carry u:

    c_f'  =  max( g_f,  FLOOR_BPS,  min( c_f,  u − Σ g of flows of other backends ) )

A backend other than the host's is made when a job first needs it. One that cannot be made leaves the job to the host's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hostd.enforce.base import Backend, OfJobs, Others
from hostd.enforce.errors import CannotEnforce, EnforcementError, about
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.kernel.tcp_info import TcpCounters
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId


class Choice(NamedTuple):
    backend: str
    why: str


Makers = Mapping[str, Callable[[], Backend]]
HERE = "its sockets are in the host's own network"
ELSEWHERE = "sockets of it are in another network namespace"
NO_SOCKETS = "it has no sockets"
NET_PLUGIN = "no socket carries its data, and NCCL sends it through our net plugin"


class ByJobBackend:
    def __init__(
        self,
        main: Backend,
        makers: Makers,
        host_bps: float,
        is_throttled: Callable[[FlowId], bool] = lambda flow: False,
    ) -> None:
        """`makers` of pacing, throttle and gate, by name; of none: every job has the host's backend. `is_throttled`:
        the job's net plugin sends the flow's bytes, and no socket of it carries them."""
        self._is_throttled = is_throttled
        self.name = main.name
        self._main, self._makers, self._host_bps = main, makers, host_bps
        self._made: dict[str, Backend] = {main.name: main}
        self._namespace = own_namespace()
        self._sockets: dict[FlowId, tuple[DataSocket, ...]] = {}
        self._limits: dict[FlowId, Limit] = {}
        self._choices: dict[str, Choice] = {}
        self._told: dict[FlowId, Limit] = {}  # what their backends were

    def choice(self, job: str) -> Choice:
        return self._choices.get(job) or Choice(self.name, HERE)

    def use(self, makers: Makers) -> list[EnforcementError]:
        """These from now on."""
        self._makers = makers
        return [error for job in [*self._choices] for error in self._place(job, self._flows_of(job))] + self._tell()

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        self._sockets[flow] = tuple(sockets)
        return self._place(flow.job, [flow]) + self._tell()

    def _place(self, job: str, changed: list[FlowId]) -> list[EnforcementError]:
        """These flows of the job in its backend, or all, if that is another one from now on."""
        errors: list[EnforcementError] = []
        before, after = self._choices.get(job), self._choose(job)
        try:
            self._make(after.backend)
        except (OSError, CannotEnforce) as error:
            errors += about(changed[0], [EnforcementError.of(error, after.backend)])
            after = Choice(self.name, f"{after.why}, but {after.backend}: {error}")
        self._choices[job] = after
        if before is not None and before.backend != after.backend:
            changed = self._flows_of(job)
            errors += [error for flow in changed for error in self._made[before.backend].detach(flow)]
        for flow in changed:
            self._told.pop(flow, None)
            errors += self._made[after.backend].attach(flow, self._sockets[flow])
        return errors

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        self._limits.pop(flow, None)
        self._told.pop(flow, None)
        errors = self._of(flow).detach(flow)
        self._sockets.pop(flow, None)
        if not self._flows_of(flow.job):
            self._choices.pop(flow.job, None)
        return errors + self._tell()

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        self._limits |= {limit.flow: limit for limit in limits}
        if len(self._made) == 1:
            return self._main.apply(limits)
        return self._tell()

    def refresh(self) -> list[EnforcementError]:
        return [error for backend in self._made.values() for error in backend.refresh()]

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> list[EnforcementError]:
        return [error for backend in self._made.values() for error in backend.watch_losses(read)]

    def watch_others(self, of_jobs: OfJobs = frozenset) -> list[EnforcementError]:
        return [error for backend in self._made.values() for error in backend.watch_others(of_jobs)]

    def others(self) -> dict[str, Others]:
        return {device: found for backend in self._made.values() for device, found in backend.others().items()}

    def read_back(self) -> dict[FlowId, Limit]:
        return {flow: limit for backend in self._made.values() for flow, limit in backend.read_back().items()}

    def close(self) -> list[EnforcementError]:
        return [error for backend in reversed(self._made.values()) for error in backend.close()]

    def _choose(self, job: str) -> Choice:
        if not self._makers:
            return Choice(self.name, f'backend = "{self.name}"')
        sockets = [one for flow in self._flows_of(job) for one in self._sockets[flow]]
        if not sockets:
            if any(self._is_throttled(flow) for flow in self._flows_of(job)):
                return Choice("throttle", NET_PLUGIN)
            return self._choices.get(job) or Choice("gate", NO_SOCKETS)  # closed, perhaps, to be opened again
        if any(one.namespace != self._namespace for one in sockets) and self.name != "pacing":
            return Choice("pacing", ELSEWHERE)
        return Choice(self.name, HERE)

    def _flows_of(self, job: str) -> list[FlowId]:
        return [flow for flow in self._sockets if flow.job == job]

    def _of(self, flow: FlowId) -> Backend:
        return self._made[self.choice(flow.job).backend]

    def _make(self, name: str) -> None:
        if name not in self._made:
            self._made[name] = self._makers[name]()

    def _tell(self) -> list[EnforcementError]:
        """Every backend its flows' limits, where they are others than before."""
        present = {flow: limit for flow, limit in self._limits.items() if flow in self._sockets}
        given: dict[str, float] = {}
        for flow, limit in present.items():
            name = self.choice(flow.job).backend
            given[name] = given.get(name, 0.0) + limit.guaranteed_bps
        of_backend: dict[str, list[Limit]] = {}
        for flow, limit in present.items():
            name = self.choice(flow.job).backend
            others_bps = sum(given.values()) - given[name]
            if others_bps and not limit.lifted:  # nobody competes with its job
                left_bps = max(limit.guaranteed_bps, FLOOR_BPS, self._host_bps - others_bps)
                limit = replace(limit, ceiling_bps=min(limit.ceiling_bps, left_bps))
            if self._told.get(flow) != limit:
                self._told[flow] = limit
                of_backend.setdefault(name, []).append(limit)
        return [error for name, limits in of_backend.items() for error in self._made[name].apply(limits)]
