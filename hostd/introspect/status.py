"""What hostd tells people: everything it knows, of jobs that are paced and of those that are only watched."""

import math
from collections.abc import Mapping

from hostd.introspect.host_view import HostView
from hostd.monitor.flow_view import FlowView, flows_of, iteration_ns_of, phase_of
from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId


def status(view: HostView) -> dict[str, object]:
    agent, enforcer, switch = view.agent, view.enforcer, view.switch
    kernel = enforcer.read_back()
    return {
        "host": view.name,
        "mode": view.mode,
        "policy": view.policy,
        "backend": enforcer.backend.name,
        "guardian_pid": enforcer.guardian_pid,
        "slot": view.slot,
        "slot_ms": agent.clock.length_ns / 1e6,
        "missed_slots": view.missed_slots,
        "decisions": view.decisions.count,
        "decision_ms": view.decisions.percentiles_ms(),
        "fail_opens": enforcer.fail_opens,
        "released": enforcer.released,
        "control_refused": view.control_refused,
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
        "jobs": [_job(view, job, kernel) for job in view.jobs.values()],
        "troubles": dict(enforcer.errors.by_reason.most_common(20)),
        "invisible": view.invisible,
    }


def _job(view: HostView, seen: JobTracker, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    """Whether it is paced or only watched."""
    name = seen.demand.job
    joined = view.agent.jobs.get(name)
    iteration_ns = iteration_ns_of(seen)
    return {
        "name": name,
        "iteration": seen.facts.iteration if seen.facts else 0,
        "iteration_ms": round(iteration_ns / 1e6, 3) if iteration_ns is not None else None,
        "phase": phase_of(seen),
        "controlled": joined is not None,
        "left_to_tcp": seen.demand.left_to_tcp or None,
        "slowdown": round(joined.progress.slowdown, 3) if joined else None,
        "processes": len(seen.processes),
        "flows": [_flow(view, one, kernel) for one in flows_of(seen)],
    }


def _flow(view: HostView, one: FlowView, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    decided = view.agent.flows.get(one.flow)  # there is none of a flow that is only watched: nothing limits it
    return {
        "flow": str(one.flow),
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
