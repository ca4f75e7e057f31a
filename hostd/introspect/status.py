"""What hostd tells people: everything it knows, of jobs that are paced and of those that are only watched."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from hostd.introspect.estimate import estimate_of
from hostd.introspect.host_view import HostView
from hostd.introspect.why_unpaced import why_unpaced
from hostd.monitor.flow_view import FlowView, flows_of, iteration_ns_of, phase_of
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.users import JobNames
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.job_names import name_of
from paceline.flowcore.model.patterns import FlowId

MOST_TROUBLES = 20


def status(view: HostView) -> dict[str, object]:
    agent, enforcer, switch, names = view.agent, view.enforcer, view.switch, view.names
    kernel, others = enforcer.read_back(), enforcer.backend.others()
    return {
        "host": view.name,
        "mode": view.mode,
        "policy": view.policy,
        "backend": enforcer.backend.name,
        "guardian_pid": enforcer.guardian_pid,
        "slot": view.slot,
        "slot_ms": agent.clock.length_ns / 1e6,
        "nic": {"link": agent.nic.name, "capacity_bps": agent.nic_bps},
        "missed_slots": view.missed_slots,
        "decisions": view.decisions.count,
        "decision_ms": view.decisions.percentiles_ms(),
        "fail_opens": enforcer.fail_opens,
        "released": enforcer.released,
        "released_by": {names.shown(job) if job else "all": by for job, by in view.released.items()},
        "enforcing": view.mode == "enforce" and enforcer.backend.name != "observe",
        "why_not_enforcing": None if view.mode != "enforce" else enforcer.why_none or None,
        "control_refused": view.control_refused,
        "registrations_refused": sum(view.registrations_refused.values()),
        "claims_held_back": {view.users.of(f"{tenant}/"): count for tenant, count in sorted(view.held_back.items())},
        "cross_traffic_connections": {name: one.connections for name, one in others.items() if one.connections},
        "cross_traffic_bps": {name: round(one.sent_bps) for name, one in others.items() if one.sent_bps},
        "cross_traffic_load_bps": {name: round(one.load_bps) for name, one in others.items() if one.load_bps},
        "switch": {
            "address": switch.address,
            "connected": switch.connected,
            "deciding_alone": agent.isolated,
            "why": switch.why_not,
            "round_trip_ms": agent.rtt_ns / 1e6,
            "word_age_ms": round(view.answer_age_ns / 1e6, 3),
            "clock_off_by_ms": switch.clock_off_by_ns / 1e6,
            "silent_switches": list(switch.silent),
        },
        "jobs": [_job(view, names, job, kernel) for job in sorted(view.jobs.values(), key=_by_name)],
        "troubles": dict(enforcer.errors.by_reason.most_common(MOST_TROUBLES)),
        "trouble_times": _trouble_times(view),
        "invisible": view.invisible,
    }


def _trouble_times(view: HostView) -> dict[str, object]:
    """When each trouble was first and last there, and how long ago that was."""
    errors = view.enforcer.errors
    return {
        reason: {
            "first": _utc(span.first_s),
            "last": _utc(span.last_s),
            "age_s": round(errors.age_s(span), 1),
        }
        for reason, _ in errors.by_reason.most_common(MOST_TROUBLES)
        if (span := errors.spans.get(reason)) is not None
    }


def _utc(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")


def _by_name(job: JobTracker) -> tuple[str, str]:
    return name_of(job.demand.job), job.demand.job


def _job(view: HostView, names: JobNames, seen: JobTracker, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    """Whether it is paced or only watched."""
    job = seen.demand.job
    joined = view.agent.jobs.get(job)
    iteration_ns = iteration_ns_of(seen)
    estimate = estimate_of(view, seen)
    return {
        "name": names.shown(job),
        "user": view.users.of(job),
        "iteration": seen.facts.iteration if seen.facts else 0,
        "iteration_ms": round(iteration_ns / 1e6, 3) if iteration_ns is not None else None,
        "phase": phase_of(seen),
        "controlled": joined is not None and None not in view.released,
        **_backend(view, job),
        "left_to_tcp": seen.demand.left_to_tcp or None,
        "not_paced": [one._asdict() for one in why_unpaced(view, seen)],
        "weight": joined.progress.weight if joined else None,
        "slowdown": round(joined.progress.slowdown, 3) if joined else None,
        "estimated_slowdown": round(estimate.slowdown, 3) if estimate else None,
        "estimated_alone_ms": round(estimate.alone_ns / 1e6, 3) if estimate else None,
        "processes": len(seen.processes),
        "flows": [_flow(view, names, one, kernel) for one in flows_of(seen)],
    }


def _backend(view: HostView, job: str) -> dict[str, object]:
    """Of a job that is paced."""
    if job not in view.agent.jobs or view.mode != "enforce":
        return {"backend": None, "why_backend": None}
    name, why = view.enforcer.choice(job)
    return {"backend": name, "why_backend": why or None}


def _flow(view: HostView, names: JobNames, one: FlowView, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    # There is none of a flow that is only watched, or whose limits were lifted: nothing limits it.
    decided = view.agent.flows.get(one.flow) if None not in view.released else None
    return {
        "flow": names.shown_flow(one.flow),
        "size_bytes": round(one.size_bytes) if one.size_bytes is not None else None,
        "sent_bytes": round(one.sent_bytes),
        "live": one.live,
        "sockets": one.sockets,
        "requested_bps": finite(decided.limit.rate_bps) if decided else None,
        "ceiling_bps": finite(decided.limit.ceiling_bps) if decided else None,
        "kernel_bps": finite(kernel[one.flow].rate_bps) if one.flow in kernel else None,
        "achieved_bps": round(view.throughput.bps(one.flow)),
    }


def finite(number: float) -> float | None:
    """JSON has no infinity: None stands for unlimited."""
    return number if math.isfinite(number) else None
