"""The jobs of a history on a fluid network, and what the monitors of their hosts see of them.

A monitor knows a job once it has seen one of its iterations end, so a daemon that was restarted lets the burst under
way pass and hears of the job after it (hostd/monitor/iteration_tracker.py).
"""

from collections.abc import Container
from functools import partial

from paceline.flowcore.messages.events import FlowDone, FlowReady, IterationEnded, JobJoined, JobLeft, Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import JobSpec, Pattern
from paceline.flowcore.model.topology import link_name
from paceline.flowcore.model.units import UNLIMITED
from paceline.sim.faults.history import Job
from paceline.sim.faults.surroundings import Counters, Surroundings
from paceline.sim.jobs import TrainingJob, Worker
from paceline.sim.reference.network import FluidNetwork

JITTER = 0.05


class Training:
    def __init__(self, world: Surroundings, seed: int) -> None:
        self.network = FluidNetwork(world.topology)
        self.running: dict[str, TrainingJob] = {}
        self.ended: dict[str, int] = {}  # iterations of each job, over all its lives
        self._world, self._seed = world, seed
        self._live: dict[str, dict[FlowId, None]] = {host: {} for host in world.topology.hosts}
        self._known: dict[str, set[str]] = {host: set() for host in world.topology.hosts}  # to the host's monitor
        self._hung: dict[str, int] = {}

    # ---- Life of a job ----

    def start(self, job: Job) -> None:
        slot_s = self._world.slots.length_ns / 1e9
        pattern = Pattern.PS if job.servers else Pattern.ALLREDUCE
        compute_s = job.compute_slots * slot_s
        spec = JobSpec(job.name, pattern, job.workers, job.servers, job.model_mb, compute_s, None, 0.0, JITTER)
        self.catch_up()
        training = self.running[job.name] = TrainingJob(spec, self._seed)
        self.ended.setdefault(job.name, 0)
        self.network.add(training.flows)
        for one in training.flows:
            if not one.flow.local:
                self._unpaced(one.flow)
        for host in training.hosts:
            self._introduce(host, training)
        for worker in training.workers.values():
            self._compute(training, worker)

    def stop(self, name: str) -> None:
        job = self.running.pop(name, None)
        if job is None:
            return
        self.catch_up()
        self.network.remove(spec.flow for spec in job.flows)
        for host in job.hosts:
            for flow in [flow for flow in self._live[host] if flow.job == name]:
                del self._live[host][flow]
            if name in self._known[host]:
                self._known[host].discard(name)
                self._world.tell(host, JobLeft(name))

    def hang(self, name: str, by: int) -> None:
        """One hang more, or one less."""
        self.catch_up()
        self._hung[name] = self._hung.get(name, 0) + by
        if self._hung[name]:
            self.network.hang(name)
        else:
            self.network.resume(name)

    def hung(self, name: str) -> bool:
        return bool(self._hung.get(name))

    def forgotten_by(self, host: str) -> None:
        """Its daemon was killed."""
        self._known[host].clear()

    def _introduce(self, host: str, job: TrainingJob) -> None:
        if not self._world.alive(host):
            return
        flows = tuple(spec for spec in job.flows if spec.flow.source == host and not spec.flow.local)
        feeds = tuple((spec.flow, job.downstream[spec.flow]) for spec in flows)
        self._known[host].add(job.spec.name)
        self._world.tell(host, JobJoined(job.spec.name, flows, feeds, job.spec.weight))

    # ---- Iterations ----

    def _compute(self, job: TrainingJob, worker: Worker) -> None:
        self._world.after(job.compute_ns(worker), partial(self._computed, job, worker))

    def _computed(self, job: TrainingJob, worker: Worker) -> None:
        if self.running.get(job.spec.name) is not job:
            return
        self.catch_up()
        for flow, iteration in list(job.computed(worker)):
            self.network.start(flow)
            if not flow.local:
                self._live[flow.source][flow] = None
                if flow.job in self._known[flow.source]:
                    self._world.tell(flow.source, FlowReady(flow, iteration))

    def network_changes(self) -> None:
        """A flow ends, or catches up with what feeds it."""
        self.catch_up()
        self.network.touch()
        for flow in self.network.finished():
            self._done(flow)

    def catch_up(self) -> None:
        """Bytes have moved until now. Called before rates change or bytes are counted: at most events, no one asks."""
        self.network.advance(self._world.now_ns)

    def _done(self, flow: FlowId) -> None:
        job = self.running[flow.job]
        if not flow.local:
            self._live[flow.source].pop(flow, None)
            if flow.job in self._known[flow.source]:
                self._world.tell(flow.source, FlowDone(flow))
        before = len(job.iteration_ends_ns)
        for through in list(job.flow_done(flow, self._world.now_ns)):
            host = through.host if isinstance(through, Worker) else through
            if flow.job in self._known[host]:
                self._world.tell(host, IterationEnded(flow.job))
            else:
                self._introduce(host, job)
            if isinstance(through, Worker):
                self._compute(job, through)
        self.ended[flow.job] += len(job.iteration_ends_ns) - before

    # ---- For the hosts ----

    def counters(self, host: str, jobs: Container[str]) -> Counters:
        """What the live flows of these jobs have sent, and which of them have nothing for the network just now."""
        live = [flow for flow in self._live[host] if flow.job in jobs and flow.job in self._known[host]]
        if live:
            self.catch_up()
        idle = tuple(flow for flow in live if self.hung(flow.job))
        return Counters(tuple((flow, self.network.sent_in_iteration(flow)) for flow in live), idle)

    def limit(self, limit: Limit) -> None:
        if limit.flow in self.network.channels:
            self.catch_up()
            self.network.limit(limit.flow, limit.rate_bps, limit.ceiling_bps)
            if limit.ceiling_bps == UNLIMITED:
                self._unpaced(limit.flow)

    def _unpaced(self, flow: FlowId) -> None:
        """HTB lets pass what is in no class: on its NIC the flow shares with those that have guarantees."""
        switch = self._world.topology.switch_of[flow.source]
        self.network.cap(flow, self._world.topology.links[link_name(flow.source, switch)].capacity_bps)
