"""How much slower than alone a job is, as this host sees it: paced or only watched, in every mode."""

from typing import NamedTuple

from hostd.introspect.host_view import HostView
from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.demand.slowdown import alone_ns, exchange_alone_ns, slowdown
from paceline.flowcore.model.patterns import FlowId, Role


class Estimate(NamedTuple):
    iterations: int
    iteration_ns: float  # mean
    alone_ns: float

    @property
    def slowdown(self) -> float:
        return slowdown(self.iteration_ns, self.alone_ns)


def estimate_of(view: HostView, job: JobTracker, since_ns: int = 0) -> Estimate | None:
    """Of the iterations since then; None while too little is known, where a flow leads to a host that the topology has
    no more, and where this host serves the job's workers: when those compute, it does not know."""
    times, sizes = job.timing.times(since_ns), sizes_of(job)
    roles = {flow.role for flow in sizes}
    known = all({flow.source, flow.target} <= view.topology.switch_of.keys() for flow in sizes)
    if times is None or not known or not roles - {Role.PULL}:
        return None
    found_ns = alone_ns(times, exchange_alone_ns(sizes, view.topology), all_flows_known=roles == {Role.RING})
    return Estimate(times.iterations, times.iteration_ns, found_ns) if found_ns else None


def sizes_of(job: JobTracker) -> dict[FlowId, float]:
    """What each of its flows sends in an iteration."""
    return {flow: job.demand.sizes[ends] for ends, flow in job.demand.flow_ids().items()}
