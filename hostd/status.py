"""What hostd tells people and Prometheus: everything it knows, and why a flow has the rate it has."""

import math
from typing import TYPE_CHECKING

from flowcore.host import Flow
from flowcore.policy.arbitrated import FLOOR_BPS
from flowcore.policy.base import Standing

if TYPE_CHECKING:
    from hostd.daemon import HostDaemon


def status(daemon: "HostDaemon") -> dict[str, object]:
    agent, config, stream = daemon.agent, daemon.config, daemon.stream
    kernel = daemon.enforcer.read_back()
    jobs = []
    for name, seen in daemon.monitor.jobs.items():
        joined = agent.jobs.get(name)
        flows = joined.flows if joined else []
        sending = any(flow.live for flow in flows)
        jobs.append(
            {
                "name": name,
                "iteration": seen.facts.iteration if seen.facts else 0,
                "phase": "learning" if not seen.watch.sizes else "sending" if sending else "computing",
                "controlled": joined is not None,
                "slowdown": round(joined.progress.slowdown, 3) if joined else None,
                "processes": len(seen.processes),
                "flows": [
                    {
                        "flow": str(flow.id),
                        "size_bytes": round(flow.spec.size_bytes),
                        "sent_bytes": round(flow.sent_bytes) if flow.live else 0,
                        "live": flow.live,
                        "sockets": len(daemon.monitor.sockets_of(flow.id)),
                        "requested_bps": finite(flow.rate_bps),
                        "ceiling_bps": finite(flow.ceiling_bps),
                        "kernel_bps": finite(kernel[flow.id].rate_bps) if flow.id in kernel else None,
                        "achieved_bps": round(daemon.achieved.bps(flow.id)),
                    }
                    for flow in flows
                ],
            }
        )
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
            "clock_off_by_ms": stream.off_by_ns / 1e6 if stream else 0.0,
            "silent_switches": list(daemon.silent),
        },
        "jobs": jobs,
        "troubles": dict(daemon.enforcer.troubles.most_common(20)),
        "invisible": daemon.monitor.invisible,
    }


def publish(daemon: "HostDaemon") -> None:
    """For Prometheus. What happens often is counted where it happens."""
    kernel, instruments = daemon.enforcer.read_back(), daemon.instruments
    instruments.switch_silent.set(daemon.agent.isolated)
    instruments.fail_opens.inc(daemon.enforcer.fail_opens - daemon.fail_opens_published)
    daemon.fail_opens_published = daemon.enforcer.fail_opens
    for flow in daemon.agent.flows.values():
        names = (flow.id.job, str(flow.id))
        instruments.requested_rate.labels(*names).set(flow.rate_bps)
        instruments.achieved_rate.labels(*names).set(daemon.achieved.bps(flow.id))
        if flow.id in kernel:
            instruments.kernel_rate.labels(*names).set(kernel[flow.id].rate_bps)


def explain(daemon: "HostDaemon", text: str) -> dict[str, object]:
    """Why this flow has this rate now."""
    found = [flow for flow in daemon.agent.flows.values() if str(flow.id) == text]
    if not found:
        known = [str(flow) for flow in daemon.agent.flows]
        return {"error": f"no flow {text!r}; there are: {', '.join(known) or 'none'}"}
    flow = found[0]
    now_ns = daemon.clock.now_ns()
    job = daemon.agent.jobs[flow.id.job]
    progress = job.progress
    bid = daemon.agent.policy.bid(Standing(progress, job.remaining_share, flow.ready_ns))
    grant = flow.grant
    return {
        "flow": text,
        "path": list(flow.path),
        "live": flow.live,
        "because": _because(daemon, flow),
        "rate_bps": finite(flow.rate_bps),
        "ceiling_bps": finite(flow.ceiling_bps),
        "at_floor": flow.rate_bps <= FLOOR_BPS,
        "decided_by": "this host alone" if daemon.agent.isolated else daemon.config.switch_name,
        "job": {
            "slowdown": progress.slowdown,
            "compute_ms": progress.compute_ns / 1e6,
            "exchange_alone_ms": progress.alone_comm_ns / 1e6,
        },
        "bid": {"urgency": bid.urgency, "compute_ms": bid.compute_ns / 1e6, "remaining_ms": bid.remaining_ns / 1e6},
        "bandwidth_estimate_bps": finite(flow.bandwidth.value(daemon.slots.index(now_ns))),
        "dependency": _dependency(flow),
        "slots": _slots(daemon, flow),
        "granted": None
        if grant is None
        else {
            "share_bps": finite(grant.share_bps),
            "ceiling_bps": finite(grant.ceiling_bps),
            "accepted": grant.accepted,
        },
    }


def _because(daemon: "HostDaemon", flow: Flow) -> str:
    if not flow.live:
        return "it has nothing to send: nothing is guaranteed, and its next bytes may start at once"
    if flow.grant is None:
        return "it has just begun, and the switch has not answered yet: it may borrow what is free"
    if flow.grant.share_bps <= FLOOR_BPS:
        return "other jobs on its path are worth more now; it may borrow what they leave, up to its ceiling"
    if flow.grant.share_bps >= 0.99 * daemon.agent.nic_bps:
        return "its job has the path to itself now"
    return "its job shares the path, or another link of its job is the bottleneck"


def _dependency(flow: Flow) -> dict[str, object]:
    grant = flow.grant
    pred_bytes = grant.pred_bytes if grant else math.inf
    allowed = pred_bytes + flow.spec.window_bytes
    return {
        "preds": [str(pred) for pred in flow.spec.preds],
        "sent_bytes": finite(flow.volume_bytes),
        "may_have_sent_bytes": finite(allowed),
        "waits_for_preds": flow.volume_bytes >= allowed,
    }


def _slots(daemon: "HostDaemon", flow: Flow) -> list[dict[str, object]]:
    """Price and room of each coming slot, as the last grant had them, and what was planned in it."""
    if flow.grant is None:
        return []
    planned = {flow.plan_slot + index: rate_bps for index, rate_bps in enumerate(flow.plan_bps)}
    return [
        {
            "slot": flow.grant_slot + index,
            "price": load,
            "available_bps": finite(available_bps),
            "planned_bps": planned.get(flow.grant_slot + index, 0.0),
        }
        for index, (load, available_bps) in enumerate(zip(flow.grant.load, flow.grant.available_bps, strict=True))
    ]


def finite(number: float) -> float | None:
    """JSON has no infinity: None stands for unlimited."""
    return number if math.isfinite(number) else None
