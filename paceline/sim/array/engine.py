"""The array engine: jobs over the array network, in steps.

A step ends when something happens, but is never shorter than `step_ns` while bytes move; while none do, time is
skipped. What happens inside a step keeps its exact time: a flow's end, and so the compute phase it starts, are not
rounded to steps. What is rounded is when rates change. A test holds this engine and the reference together.

Jobs may come at any time (`start`); `finished` is called when a job is through. A policy such as fair+adadual holds
exchanges back (gating.py); jobs may share GPUs (gpus.py). An iteration is computing, then one exchange.
"""

import heapq
import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count

from paceline.cluster.gpu_sharing import Gpu
from paceline.flowcore.allocation.borrowing import Floats
from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.background import FAIR
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.scenario import CrossTraffic, Scenario
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import NS_PER_S, bps_from_gbps, ns_from_ms, ns_from_s
from paceline.flowcore.policy import policy_named
from paceline.sim.array import arbitrated
from paceline.sim.array.agents import AgentControl
from paceline.sim.array.compiled_control import compiled_control
from paceline.sim.array.control import NEVER_NS, Action, Control, ControlContext, NetworkJob, Pulse
from paceline.sim.array.gating import Flows, Shifted, gating_for, service_s
from paceline.sim.array.gpus import SharedGpus
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.array.no_control import NoControl
from paceline.sim.array.planned.control import planned_control, plans
from paceline.sim.cassini import Cassini
from paceline.sim.jobs import TrainingJob, Worker
from paceline.sim.kernel.library import library
from paceline.sim.parameters import DEFAULT_LATENCY_MS
from paceline.sim.policy_names import parts

# Plans are made to end with their slot: a flow that is a fraction of a millisecond late loses the next slot as well.
EXACT_STEP_MS = 0.01


def in_agents(policy: Policy, *, cross_traffic: bool) -> bool:
    """Whether the agents themselves run: for what the array engine cannot do in a policy's place."""
    yields = cross_traffic and policy.yields_to_cross_traffic
    planned = plans(policy) and library() is not None
    return policy.paced and (yields or not (arbitrated.decides(policy) or planned))


def control_for(context: ControlContext) -> Control:
    if not context.policy.paced:
        return NoControl()
    if planned := planned_control(context):
        return planned
    if plans(context.policy) or in_agents(context.policy, cross_traffic=context.cross_traffic):
        return AgentControl(context)
    if compiled := compiled_control(context):
        return compiled
    return arbitrated.ArbitratedControl(context)


class ArraySimulation:
    def __init__(
        self,
        topology: Topology,
        clock: SlotClock,
        policy: str,
        *,
        latency_ms: float = DEFAULT_LATENCY_MS,
        step_ms: float | None = None,  # None: longer with more flows
        cross_traffic: bool = False,  # there will be some ...
        background: str = FAIR,  # ... and this is done about it
        finished: Callable[[TrainingJob], None] | None = None,
        passed: Callable[[int], None] | None = None,  # is told the time, once in a while
    ) -> None:
        flow_policy, communication = parts(policy)
        chosen = policy_named(flow_policy)
        if step_ms is None and (plans(chosen) or in_agents(chosen, cross_traffic=cross_traffic)):
            step_ms = EXACT_STEP_MS
        self.now_ns = 0
        self.jobs: dict[str, NetworkJob] = {}  # those that train now
        self.network = ArrayNetwork(
            topology,
            None if step_ms is None else ns_from_ms(step_ms),
            start_after=chosen.start_after,
            contention=chosen.contention,
            aggressiveness=chosen.aggressiveness,
        )
        pulse = Pulse()
        self._pulse = pulse.cells
        latency_ns, beside = ns_from_ms(latency_ms), (cross_traffic, background)
        self.control = control_for(ControlContext(chosen, clock, self.network, latency_ns, self.at, pulse, *beside))
        self.gating = gating_for(communication, self.network, self.at, self._send)
        self._gpus = SharedGpus(self.at)
        self.interrupted = False  # set it to make `run` return after the present step
        self._finished = finished or (lambda job: None)
        self._passed, self._told_ns = passed, 0
        self._heap: list[tuple[int, int, Action]] = []
        self._indices = count()
        self._flow_steps_elsewhere = 0
        self._decisions_elsewhere: array[int] = array("q")
        self._others: list[int] = []  # rows of cross traffic

    def at(self, time_ns: int, action: Action) -> None:
        pulse = self._pulse
        sequence = pulse[Pulse.SEQUENCE]
        pulse[Pulse.SEQUENCE] = sequence + 1
        heapq.heappush(self._heap, (time_ns, sequence, action))

    def run(self, until_ns: int) -> None:
        """Go on until then, or until interrupted."""
        network, control, heap, pulse, own_ns = self.network, self.control, self._heap, self._pulse, Pulse.OWN_NS
        self.interrupted = False
        while self.now_ns < until_ns and not self.interrupted:
            event_ns = min(heap[0][0] if heap else until_ns, pulse[own_ns])
            ended, marked = network.run(event_ns, control.next_ns(), until_ns)
            next_ns = network.now_ns
            for end_ns, number in ended:
                self.now_ns = end_ns
                self._flow_done(number)
            while heap and heap[0][0] <= next_ns:
                if pulse[own_ns] <= heap[0][0]:
                    control.happen(*heap[0][:2])
                self.now_ns, _, action = heapq.heappop(heap)
                action()
            if pulse[own_ns] <= next_ns:
                control.happen(next_ns, NEVER_NS)
            self.now_ns = next_ns
            control.run(next_ns, marked)
            if self._passed is not None and next_ns - self._told_ns >= NS_PER_S:
                self._told_ns = next_ns
                self._passed(next_ns)

    @property
    def steps(self) -> int:
        return self.network.steps

    @property
    def flow_steps(self) -> int:
        """Σ over steps of the flows that were sending."""
        return self.network.flow_steps + self._flow_steps_elsewhere

    def take_in(self, carried_bytes: Floats, decisions_ns: Sequence[int], flow_steps: int) -> None:
        """What happened in other processes to jobs that this one was without."""
        self.network.take_in(carried_bytes)
        self._flow_steps_elsewhere += flow_steps
        self._decisions_elsewhere.extend(decisions_ns)

    @property
    def decisions_ns(self) -> Sequence[int]:
        """How long each took on the wall clock."""
        return [*self.control.decisions_ns, *self._decisions_elsewhere]

    # ---- Jobs ----

    def start(
        self, training: TrainingJob, gpus: int = 1, shared_gpus: Mapping[str, tuple[Gpu, ...]] | None = None
    ) -> None:
        if not training.spec.plain:
            raise ValueError(f"the array engine knows no overlap and no bursts: {training.spec.name}")
        index = next(self._indices)
        numbers = self.network.add(training.flows, index)
        job = self.jobs[training.spec.name] = NetworkJob(training, index, numbers, gpus, shared_gpus or {})
        self.control.joined(job, self.now_ns)
        for worker in training.workers.values():
            self._compute(job, worker)

    def stop(self, name: str) -> int:
        """Take a job out, in the middle of whatever it does; the iterations it finished."""
        finished = self.iterations_done(name)
        self._leave(self.jobs[name])
        return finished

    def iterations_done(self, name: str) -> int:
        """Those a driver skipped count too."""
        training = self.jobs[name].training
        return len(training.iteration_ends_ns) + (training.spec.iterations or 0) - (training.goal or 0)

    def _leave(self, job: NetworkJob) -> None:
        del self.jobs[job.name]
        self.control.left(job, self.now_ns)
        self.network.remove(job.name, job.numbers)
        if self.gating is not None:
            self.gating.left(job)

    def _compute(self, job: NetworkJob, worker: Worker) -> None:
        training = job.training
        if training.goal is None or worker.iteration < training.goal:
            lasts_ns = training.compute_ns(worker)

            def computed() -> None:
                self._computed(job, worker)

            if job.shared_gpus:
                gpus = job.shared_gpus[worker.host]
                self._gpus.compute(gpus, lasts_ns, service_s(job), self.now_ns, computed)
            else:
                self.at(self.now_ns + lasts_ns, computed)

    def _computed(self, job: NetworkJob, worker: Worker) -> None:
        if self.jobs.get(job.name) is not job:
            return  # it was stopped while it computed
        flows = list(job.training.computed(worker))
        if self.gating is None or len(job.training.hosts) == 1:
            self._send(job, flows)
        else:
            self.gating.computed(job, flows, self.now_ns)

    def _send(self, job: NetworkJob, flows: Flows) -> None:
        started: dict[int, list[int]] = {}
        for flow, iteration in flows:
            number = self.network.numbers[flow]
            if not self.network.size[number]:
                self._flow_done(number)  # a job on one server has nothing to say to itself
                continue
            self.network.start(number)
            if not flow.local:
                started.setdefault(iteration, []).append(number)
        for iteration, numbers in started.items():
            self.control.ready(job, numbers, iteration, self.now_ns)

    def _flow_done(self, number: int) -> None:
        flow = self.network.flow(number)
        job = self.jobs[flow.job]
        if not flow.local:
            self.control.done(job, number, self.now_ns)
        if self.gating is not None and self.network.size[number]:
            self.gating.flow_done(job)
        for through in list(job.training.flow_done(flow, self.now_ns)):
            host = through.host if isinstance(through, Worker) else through
            self.control.iteration_ended(job, host, self.now_ns)
            if isinstance(through, Worker):
                self._compute(job, through)
        if job.training.finished:
            self._leave(job)
            self._finished(job.training)

    # ---- Cross traffic ----

    @property
    def others_bytes(self) -> tuple[float, ...]:
        """What each flow of cross traffic has sent."""
        return tuple(self.network.sent[self._others].tolist())

    def cross(self, bursts: CrossTraffic, number: int, draws: random.Random) -> None:
        flow = FlowId(f"cross traffic {number}", bursts.source, bursts.target, Role.OTHER)
        (index,) = self.network.add([FlowSpec(flow, float("inf"), (), float("inf"))], next(self._indices)).tolist()
        self.network.cap(index, bps_from_gbps(bursts.gbps))
        self._others.append(index)

        def burst() -> None:
            self.network.start(index)
            lasts_ns = min(ns_from_s(draws.uniform(*bursts.lasts_s)), ns_from_s(bursts.every_s))
            self.at(self.now_ns + lasts_ns, lambda: self.network.stop(index))
            self.at(self.now_ns + ns_from_s(bursts.every_s), burst)

        self.at(0, burst)


def run_scenario(
    scenario: Scenario, policy: str, seed: int, latency_ms: float = DEFAULT_LATENCY_MS, background: str = FAIR
) -> tuple[ArraySimulation, list[TrainingJob]]:
    """A scenario in the array engine: for policies that hold jobs back, and to compare with the reference engine."""
    cassini = Cassini(scenario.topology)

    def retime() -> None:
        if isinstance(simulation.gating, Shifted):
            simulation.gating.due = cassini.due(simulation.gating.due, simulation.now_ns)

    def start(job: TrainingJob) -> None:
        cassini.joined(job.spec)
        retime()
        simulation.start(job)

    def finished(job: TrainingJob) -> None:
        cassini.left(job.spec.name)
        retime()

    clock = scenario.slots.clock()
    simulation = ArraySimulation(
        scenario.topology,
        clock,
        policy,
        latency_ms=latency_ms,
        cross_traffic=bool(scenario.cross_traffic),
        background=background,
        finished=finished,
    )
    jobs = [TrainingJob(spec, seed) for spec in scenario.jobs]
    for job in jobs:
        simulation.at(ns_from_s(job.spec.start_s), partial(start, job))
    for number, bursts in enumerate(scenario.cross_traffic):
        simulation.cross(bursts, number, random.Random(f"{seed}/cross/{number}"))
    if scenario.duration_s is not None:
        simulation.run(ns_from_s(scenario.duration_s))
        return simulation, jobs
    while not all(job.finished for job in jobs):
        simulation.run(simulation.now_ns + 10 * 10**9)
    return simulation, jobs
