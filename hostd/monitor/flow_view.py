"""Every job and flow that the monitor sees, whoever decides about it: in observe mode, too, and of jobs not listed.

Before an iteration was seen whole nobody knows what belongs to it: then a flow is a host to which the job has data
connections, and has no size yet. After that it is one of those that carry the job's data.
"""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

from hostd.monitor.job_tracker import WatchedJob
from paceline.flowcore.model.patterns import FlowId

PHASES = ("learning", "computing", "sending")


class WatchedFlow(NamedTuple):
    flow: FlowId
    sockets: int
    size_bytes: float | None  # of an iteration, on the wire; None while it is learned
    sent_bytes: float  # of that, so far; 0 at rest
    total_bytes: float  # since it was first seen
    live: bool


def flows_of(job: WatchedJob) -> Iterator[WatchedFlow]:
    watch, facts = job.watch, job.facts
    for ends in sorted(watch.sizes or job.sockets):
        role, target = ends
        live = ends in watch.live
        yield WatchedFlow(
            FlowId(watch.job, watch.host, target, role),
            len(job.sockets.get(ends, ())),
            watch.sizes.get(ends),
            watch.sent_bytes(ends, facts) if live and facts is not None else 0.0,
            facts.sent_bytes.get(ends, 0.0) if facts is not None else 0.0,
            live,
        )


def phase_of(job: WatchedJob) -> str:
    if not job.watch.sizes:
        return "learning"
    return "sending" if job.watch.live else "computing"


def iteration_ns_of(job: WatchedJob) -> float | None:
    """As its processes mark them, or by the rhythm of its bursts; None while that is not learned."""
    if job.rhythm is not None:
        return job.rhythm.period_ns
    learned = [process.view.learned for process in job.processes.values() if process.view is not None]
    times_ns = [one.iteration_ns for one in learned if one is not None]
    return median(times_ns) if times_ns else None


def moving(jobs: Mapping[str, WatchedJob]) -> Iterator[tuple[FlowId, int, float]]:
    """The flows that are not at rest, when each was last measured, and what it had sent by then."""
    for job in jobs.values():
        if job.facts is not None and not job.facts.resting:
            for one in flows_of(job):
                yield one.flow, job.measured_ns, one.total_bytes
