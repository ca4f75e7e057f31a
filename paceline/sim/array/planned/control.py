"""`mlcc` and `mlcc-open` in C: hosts and switches as in agents.py, every message of theirs, without the agents.

The rules are flowcore's: kernel/planned/rules.c has them once more, and docs/design.md names the test that holds the
two together. Iterations end at the same nanosecond as in the agents; what the agents do where messages are late or
lost cannot happen here, so a control latency of a good part of a slot is theirs.
"""

import ctypes
import weakref
from array import array
from collections.abc import Sequence
from functools import partial

import numpy as np

from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.domain import keepers, other_switches
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.policy.mlcc import Mlcc, MlccOpen
from paceline.sim.array.control import ControlContext, NetworkJob, Pulse
from paceline.sim.array.planned.numbers import Numbers
from paceline.sim.kernel.library import NUMBER, library
from paceline.sim.kernel.planned.library import MOST_HORIZON, MOST_SWITCHES, declared, planning
from paceline.sim.kernel.steps_in_c import CompiledSteps

MESSAGES_IN_A_SLOT = 8  # one after the other, at least: an answer takes four, and one may wait for the next slot


def plans(policy: Policy) -> bool:
    """Whether C does what the policy does: it is one of these two, and no other that overrides something of theirs."""
    return type(policy) in (Mlcc, MlccOpen)


def planned_control(context: ControlContext) -> "PlannedControl | None":
    """None: C does not know such a policy or such times, or there is no C."""
    clock, steps, compiled = context.clock, context.network.compiled, library()
    if compiled is None or steps is None or not plans(context.policy) or clock.horizon > MOST_HORIZON:
        return None
    if not 0 < MESSAGES_IN_A_SLOT * context.latency_ns <= clock.length_ns:
        return None
    return PlannedControl(context, steps, declared(compiled))


class PlannedControl:
    def __init__(self, context: ControlContext, steps: CompiledSteps, compiled: ctypes.CDLL) -> None:
        clock, topology, chosen = context.clock, context.network.topology, context.policy.chosen
        self._network, self._topology = context.network, topology
        self._pulse = context.pulse.cells
        self._keeper = keepers(topology)
        self._hosts = {name: number for number, name in enumerate(topology.hosts)}
        self._switches = {name: number for number, name in enumerate(topology.switches)}
        self._flow_numbers, self._job_numbers = Numbers(), Numbers()
        self._number_of: dict[int, int] = {}  # by row of the network: the flow's in C
        self._jobs: dict[int, int] = {}  # by index: the job's
        tors = _numbers([self._switches[topology.switch_of[host]] for host in topology.hosts])
        nics_bps = np.array([sum(nic.capacity_bps for nic in topology.nics(host)) for host in topology.hosts])
        options = _numbers(
            [
                *(clock.length_ns, clock.horizon, clock.epoch_ns, context.latency_ns),
                *(name in chosen for name in ("ready", "line-rate", "open", "tail", "slot-mean")),
                *(len(self._hosts), len(self._switches)),
            ]
        )
        steps.grown()
        self._planned = compiled.planned_new(
            *(steps.network, planning(), options.ctypes.data, context.pulse.numbers.ctypes.data),
            *(tors.ctypes.data, nics_bps.ctypes.data),
        )
        self._held = (steps, context.pulse)  # what C points to
        weakref.finalize(self, compiled.planned_free, self._planned)
        self._compiled = compiled
        self._ready, self._done, self._touch, self._run = (
            partial(getattr(compiled, f"planned_{name}"), self._planned) for name in ("ready", "done", "touch", "run")
        )

    @property
    def peak_ratio(self) -> float:
        """The largest part of a link that plans took."""
        return float(self._compiled.planned_peak_ratio(self._planned))

    @property
    def decisions_ns(self) -> Sequence[int]:
        taken_ns = ctypes.POINTER(NUMBER)()
        count = self._compiled.planned_decisions(self._planned, ctypes.byref(taken_ns))
        return array("q", taken_ns[:count])

    # ---- Jobs come and leave ----

    def joined(self, job: NetworkJob, now_ns: int) -> None:
        flows = [spec for spec in job.training.flows if not spec.flow.local]
        of_job = self._jobs[job.index] = self._job_numbers.take(now_ns)
        number_of = {spec.flow: self._flow_numbers.take(now_ns) for spec in flows}
        paths = {flow: self._topology.path(flow.source, flow.target, str(flow)) for flow in number_of}
        kept = {flow: self._kept(flow, path) for flow, path in paths.items()}
        switches = {name: place for place, name in enumerate(dict.fromkeys(at for of in kept.values() for at in of))}
        self._compiled.planned_add_job(self._planned, of_job, len(switches))
        for host in job.training.hosts:
            self._touch(self._hosts[host], now_ns)
            for spec in flows:
                if spec.flow.source == host:
                    self._add(job, spec, number_of, of_job, kept[spec.flow], switches)

    def _kept(self, flow: FlowId, path: Sequence[str]) -> dict[str, list[int]]:
        """By switch on the path, the flow's ToR first: the links it keeps."""
        own, links = self._topology.switch_of[flow.source], self._network.link_index
        at = (own, *other_switches(path, self._keeper, own))
        assert len(at) <= MOST_SWITCHES
        return {name: [links[link] for link in path if self._keeper[link] == name] for name in at}

    def _add(
        self,
        job: NetworkJob,
        spec: FlowSpec,
        number_of: dict[FlowId, int],
        of_job: int,
        kept: dict[str, list[int]],
        switches: dict[str, int],
    ) -> None:
        flow = spec.flow
        row, number = self._network.numbers[flow], number_of[flow]
        self._number_of[row] = number
        upstream = [number_of[feeder] for feeder in spec.upstream if not feeder.local]
        downstream = [number_of[after] for after in job.training.downstream[flow] if not after.local]
        push, counts = flow.role is Role.PUSH, (len(kept), len(upstream), len(downstream))
        facts = _numbers([row, self._hosts[flow.source], of_job, push, *counts])
        places = [(self._switches[at], switches[at], len(links), *links) for at, links in kept.items()]
        path, neighbours = _numbers([one for place in places for one in place]), _numbers([*upstream, *downstream])
        self._compiled.planned_add_flow(
            *(self._planned, number, facts.ctypes.data, spec.size_bytes, spec.window_bytes),
            *(path.ctypes.data, neighbours.ctypes.data),
        )

    def left(self, job: NetworkJob, now_ns: int) -> None:
        by_host: dict[str, list[int]] = {host: [] for host in job.training.hosts}
        for spec in job.training.flows:
            if not spec.flow.local:
                by_host[spec.flow.source].append(self._number_of.pop(self._network.numbers[spec.flow]))
        everything = _numbers([number for numbers in by_host.values() for number in numbers])
        self._compiled.planned_stop(self._planned, everything.ctypes.data, len(everything))
        for host, numbers in by_host.items():
            of_host = _numbers(numbers)
            self._compiled.planned_leave(self._planned, self._hosts[host], of_host.ctypes.data, len(numbers), now_ns)
        for number in everything.tolist():
            self._flow_numbers.give_back(number, now_ns)
        self._job_numbers.give_back(self._jobs.pop(job.index), now_ns)

    # ---- What happens ----

    def ready(self, job: NetworkJob, numbers: list[int], iteration: int, now_ns: int) -> None:
        flows = [self._number_of[row] for row in numbers]
        self._ready((NUMBER * len(flows))(*flows), len(flows), iteration, now_ns)

    def done(self, job: NetworkJob, number: int, now_ns: int) -> None:
        self._done(self._number_of[number], now_ns)

    def iteration_ended(self, job: NetworkJob, host: str, now_ns: int) -> None:
        self._touch(self._hosts[host], now_ns)

    def next_ns(self) -> int:
        return self._pulse[Pulse.NEXT_NS]

    def run(self, now_ns: int, marked: Sequence[int]) -> None:
        self._run(now_ns)

    def happen(self, until_ns: int, sequence: int) -> None:
        """Its events come with `run`: rates change when a message arrives, so a step ends there."""


def _numbers(of: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(of, np.int64)
