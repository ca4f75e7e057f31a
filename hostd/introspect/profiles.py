"""What this host has learned of its jobs, for `paceline whatif`: everything that a simulation of them needs.

The same in every mode: in observe mode jobs are learned as they are under enforce.
"""

import time

from hostd.introspect.estimate import sizes_of
from hostd.introspect.host_view import HostView
from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.model.plain_topology import plain

VERSION = 1


def profiles(view: HostView, since_s: float | None = None) -> dict[str, object]:
    """`since_s`: of the iterations of the last so many seconds."""
    since_ns = 0 if since_s is None else view.own_ns - round(since_s * 1e9)
    clock = view.agent.clock
    return {
        "version": VERSION,
        "host": view.name,
        "time_s": round(time.time(), 3),
        "mode": view.mode,
        "slot_ms": clock.length_ns / 1e6,
        "horizon": clock.horizon,
        "topology": plain(view.topology),
        "jobs": [_job(view, job, since_ns) for _, job in sorted(view.jobs.items())],
    }


def _job(view: HostView, job: JobTracker, since_ns: int) -> dict[str, object]:
    """By tenant and name, which are the same on all of its hosts; what it is shown as is not."""
    times = job.timing.times(since_ns)
    return {
        "name": job.demand.job,
        "paced": view.is_paced(job.demand.job),
        "members": job.facts.members if job.facts is not None else 0,
        "times": None
        if times is None
        else {
            "iterations": times.iterations,
            "iteration_ns": times.iteration_ns,
            "fastest_ns": times.fastest_ns,
            "computing_ns": times.computing_ns,
            "beside_ns": times.beside_ns,
            "bursts": times.bursts,
            "jitter": times.jitter,
        },
        "flows": [
            {"source": flow.source, "target": flow.target, "role": flow.role.value, "size_bytes": size_bytes}
            for flow, size_bytes in sorted(sizes_of(job).items())
        ],
    }
