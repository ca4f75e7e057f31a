"""Every job and flow that the monitor sees, paced or only watched: in observe mode, too, and of jobs not listed.

Before an iteration was seen whole it is not known what belongs to it: then a flow is a host to which the job has data
connections, and has no size yet. After that it is one of those that carry the job's data.
"""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.demand.flows import flow_id
from paceline.flowcore.model.patterns import FlowId

PHASES = ("learning", "computing", "sending")


class FlowView(NamedTuple):
    flow: FlowId
    sockets: int
    size_bytes: float | None  # of an iteration, on the wire; None while it is learned
    sent_bytes: float  # of that, so far; 0 at rest
    total_bytes: float  # since it was first seen
    live: bool


def flows_of(job: JobTracker) -> Iterator[FlowView]:
    demand, facts, sockets = job.demand, job.facts, job.data_sockets
    for ends in sorted(demand.sizes or sockets):
        live = ends in demand.live
        yield FlowView(
            flow_id(demand.job, demand.host, ends),
            len(sockets.get(ends, ())),
            demand.sizes.get(ends),
            demand.sent_bytes(ends, facts) if live and facts is not None else 0.0,
            facts.sent_bytes.get(ends, 0.0) if facts is not None else 0.0,
            live,
        )


def phase_of(job: JobTracker) -> str:
    if not job.demand.sizes:
        return "learning"
    return "sending" if job.demand.live else "computing"


def iteration_ns_of(job: JobTracker) -> float | None:
    """By its processes' iteration counters, or by the rhythm of its bursts; None while that is not learned."""
    if job.rhythm is not None:
        return job.rhythm.period_ns
    learned = [process.view.learned for process in job.processes.values() if process.view is not None]
    times_ns = [one.iteration_ns for one in learned if one is not None]
    return median(times_ns) if times_ns else None


def moving(jobs: Mapping[str, JobTracker]) -> Iterator[tuple[FlowId, int, float]]:
    """The flows that are not at rest, when each was last measured, and what it had sent by then."""
    for job in jobs.values():
        demand, facts = job.demand, job.facts
        if facts is not None and not facts.resting:
            for ends in demand.sizes or job.data_sockets:
                yield flow_id(demand.job, demand.host, ends), job.measured_ns, facts.sent_bytes.get(ends, 0.0)
