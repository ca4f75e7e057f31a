"""What hostd tells people: everything it knows, of jobs that are paced and of those that are only watched."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hostd.introspect.metrics import word_age_ns
from hostd.monitor.flow_view import WatchedFlow, flows_of, iteration_ns_of, phase_of
from hostd.monitor.job_tracker import WatchedJob
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId

if TYPE_CHECKING:
    from hostd.daemon import HostDaemon


def status(daemon: "HostDaemon") -> dict[str, object]:
    agent, config, stream = daemon.agent, daemon.config, daemon.stream
    kernel = daemon.enforcer.read_back()
    return {
        "host": config.name,
        "mode": config.mode,
        "policy": config.policy,
        "backend": daemon.enforcer.backend.name,
        "guardian_pid": daemon.enforcer.guardian_pid,
        "slot": daemon.slots.index(daemon.clock.now_ns()),
        "slot_ms": daemon.slots.length_ns / 1e6,
        "missed_slots": daemon.decider.missed_slots,
        "decisions": daemon.decider.durations.count,
        "decision_ms": daemon.decider.durations.percentiles_ms(),
        "fail_opens": daemon.enforcer.fail_opens,
        "released": daemon.enforcer.released,
        "control_refused": daemon.control.refused,
        "switch": {
            "address": config.switch,
            "connected": bool(stream and stream.connected),
            "deciding_alone": agent.isolated,
            "why": daemon.terms_refused or (stream.refused if stream else "no switch is configured"),
            "round_trip_ms": agent.rtt_ns / 1e6,
            "word_age_ms": round(word_age_ns(daemon) / 1e6, 3),
            "clock_off_by_ms": stream.off_by_ns / 1e6 if stream else 0.0,
            "silent_switches": list(daemon.silent),
        },
        "jobs": [_job(daemon, job, kernel) for job in daemon.monitor.jobs.values()],
        "troubles": dict(daemon.enforcer.troubles.most_common(20)),
        "invisible": daemon.monitor.invisible,
    }


def _job(daemon: "HostDaemon", seen: WatchedJob, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    """Whether it is paced or only watched."""
    name, joined = seen.watch.job, daemon.agent.jobs.get(seen.watch.job)
    iteration_ns = iteration_ns_of(seen)
    return {
        "name": name,
        "iteration": seen.facts.iteration if seen.facts else 0,
        "iteration_ms": round(iteration_ns / 1e6, 3) if iteration_ns is not None else None,
        "phase": phase_of(seen),
        "controlled": joined is not None,
        "slowdown": round(joined.progress.slowdown, 3) if joined else None,
        "processes": len(seen.processes),
        "flows": [_flow(daemon, one, kernel) for one in flows_of(seen)],
    }


def _flow(daemon: "HostDaemon", one: WatchedFlow, kernel: Mapping[FlowId, Limit]) -> dict[str, object]:
    decided = daemon.agent.flows.get(one.flow)  # there is none of a flow that is only watched: nothing limits it
    return {
        "flow": str(one.flow),
        "size_bytes": round(one.size_bytes) if one.size_bytes is not None else None,
        "sent_bytes": round(one.sent_bytes),
        "live": one.live,
        "sockets": one.sockets,
        "requested_bps": finite(decided.limit.rate_bps) if decided else None,
        "ceiling_bps": finite(decided.limit.ceiling_bps) if decided else None,
        "kernel_bps": finite(kernel[one.flow].rate_bps) if one.flow in kernel else None,
        "achieved_bps": round(daemon.achieved.bps(one.flow)),
    }


def finite(number: float) -> float | None:
    """JSON has no infinity: None stands for unlimited."""
    return number if math.isfinite(number) else None
