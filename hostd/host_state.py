"""What this host tells its switch of itself (paceline/wire/host_state.py)."""

from collections.abc import Iterable, Mapping

from hostd.introspect.estimate import estimate_of
from hostd.introspect.host_view import HostView
from hostd.introspect.why_unpaced import Unpaced
from hostd.monitor.flow_view import iteration_ns_of, phase_of
from hostd.monitor.job_tracker import JobTracker
from paceline import __version__
from paceline.wire.host_state import HostState, JobState


def host_state(view: HostView, unpaced: Mapping[str, Iterable[Unpaced]]) -> HostState:
    backend = view.enforcer.backend.name
    return HostState(
        view.mode,
        backend,
        __version__,
        view.mode == "enforce" and backend != "observe",
        view.missed_slots,
        tuple(_job(view, job, unpaced.get(name, ())) for name, job in sorted(view.jobs.items())),
        len(view.jobs),
        dict(view.enforcer.errors.by_reason.most_common(8)),
    )


def _job(view: HostView, seen: JobTracker, unpaced: Iterable[Unpaced]) -> JobState:
    joined = view.agent.jobs.get(seen.demand.job)
    iteration_ns, estimate = iteration_ns_of(seen), estimate_of(view, seen)
    return JobState(
        seen.demand.job,
        phase_of(seen),
        joined is not None and None not in view.released,
        seen.facts.iteration if seen.facts else 0,
        round(iteration_ns / 1e6, 1) if iteration_ns is not None else None,
        round(joined.progress.slowdown, 3) if joined else round(estimate.slowdown, 3) if estimate else None,
        tuple(one.why for one in unpaced),
    )
