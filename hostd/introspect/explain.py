"""Why a flow has the rate it has now: prices, bottleneck, dependency, floor; and why a job is not paced."""

import math
from collections.abc import Iterable

from hostd.introspect.bottleneck import bottleneck
from hostd.introspect.host_view import HostView
from hostd.introspect.status import finite
from hostd.introspect.why_unpaced import why_unpaced
from hostd.monitor.flow_view import flows_of, phase_of
from hostd.monitor.job_tracker import JobTracker
from hostd.monitor.users import JobNames
from paceline.flowcore.host.flow_state import FlowState, JobFlows
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.events import FLOOR_BPS


def explain(view: HostView, text: str) -> dict[str, object]:
    """Why this flow has this rate now; of a job: which flows it has, and why it is not paced if it is not."""
    agent, names = view.agent, view.names
    if jobs := names.meant(text):
        return _of_job(view, view.jobs[jobs[0]]) if len(jobs) == 1 else {"error": several(names, text, jobs)}
    found = [flow for flow in agent.flows.values() if text in (names.shown_flow(flow.id), str(flow.id))]
    if not found or None in view.released:
        return {"error": _why_unknown(view, text)}
    flow = found[0]
    job = agent.jobs[flow.id.job]
    progress = job.progress
    bid = agent.policy.bid(JobState(progress, job.remaining_share, flow.ready_ns, sent_iterations=job.sent_iterations))
    grant = flow.grant
    return {
        "flow": names.shown_flow(flow.id),
        "not_paced": [one._asdict() for one in why_unpaced(view, view.jobs[flow.id.job])]
        if flow.id.job in view.jobs
        else [],
        "path": list(flow.path),
        "live": flow.live,
        "because": _because(view, flow),
        "rate_bps": finite(flow.limit.rate_bps),
        "ceiling_bps": finite(flow.limit.ceiling_bps),
        "stands_for": flow.limit.stands_for,
        "at_floor": flow.limit.rate_bps <= FLOOR_BPS,
        "decided_by": "this host alone" if agent.isolated else view.switch.name,
        "job": {
            "weight": progress.weight,
            "slowdown": progress.slowdown,
            "compute_ms": progress.compute_ns / 1e6,
            "exchange_alone_ms": progress.alone_comm_ns / 1e6,
        },
        "bid": {"urgency": bid.urgency, "compute_ms": bid.compute_ns / 1e6, "remaining_ms": bid.remaining_ns / 1e6},
        "bandwidth_estimate_bps": finite(flow.bandwidth.value(view.slot)),
        "bottleneck": _bottleneck(view, flow),
        "dependency": _dependency(flow, names),
        "slots": _slots(flow),
        "granted": None
        if grant is None
        else {
            "share_bps": finite(grant.share_bps),
            "ceiling_bps": finite(grant.ceiling_bps),
            "accepted": grant.accepted,
        },
    }


def several(names: JobNames, text: str, jobs: Iterable[str]) -> str:
    return f"several users have a job {text!r}: {', '.join(sorted(map(names.shown, jobs)))}"


def _of_job(view: HostView, job: JobTracker) -> dict[str, object]:
    names, joined = view.names, view.agent.jobs.get(job.demand.job)
    return {
        "job": names.shown(job.demand.job),
        "user": view.users.of(job.demand.job),
        "controlled": joined is not None and None not in view.released,
        "phase": phase_of(job),
        "weight": joined.progress.weight if joined is not None else None,
        "why_weight": _why_weight(joined.progress.weight, job.demand.weight) if joined is not None else None,
        "iterations_left": _iterations_left(joined),
        "slowdown": joined.progress.slowdown if joined is not None else None,
        "flows": [names.shown_flow(one.flow) for one in flows_of(job)],
        "not_paced": [one._asdict() for one in why_unpaced(view, job)],
    }


def _iterations_left(joined: JobFlows | None) -> int | None:
    """By what it says; None where it does not say, or has done more."""
    if joined is None:
        return None
    left = round(joined.progress.iterations - joined.sent_iterations)
    return left if joined.progress.iterations and left >= 0 else None


def _why_unknown(view: HostView, text: str) -> str:
    names = view.names
    watched = {names.shown_flow(one.flow): job for job in view.jobs.values() for one in flows_of(job)}
    if text not in watched:
        return f"no flow or job {text!r}; flows: {', '.join(watched) or 'none'}; jobs: {names.every()}"
    whys = [one.why for one in why_unpaced(view, watched[text])] or ["its job is about to join"]
    return f"{text} is only watched: {'; '.join(whys)}"


def _because(view: HostView, flow: FlowState) -> str:
    if not flow.live:
        return "it has nothing to send: nothing is guaranteed, and its next bytes may start at once"
    if view.agent.is_left_alone(flow):
        return "nobody competes with its job: it sends as it likes until its switch says that somebody does"
    if flow.grant is None:
        return "it has just begun, and the switch has not answered yet: it may borrow what is free"
    goes_on = view.agent.jobs[flow.id.job].unstoppable and flow.has_begun
    if goes_on and not flow.has_share:
        return "another burst began beside it, and is worth more now; only launches can be held here: it goes on"
    if flow.grant.share_bps <= FLOOR_BPS:
        counts = f" (its weight is {weight:g})" if (weight := _weight(view, flow)) != 1.0 else ""
        return f"other jobs on its path are worth more now{counts}; it may borrow what they leave, up to its ceiling"
    if goes_on:
        return "its burst has begun, and only launches can be held here: it keeps its turn"
    if flow.grant.share_bps >= 0.99 * view.agent.nic_bps:
        return "its job has the path to itself now"
    return "its job shares the path, or another link of its job is the bottleneck"


def _weight(view: HostView, flow: FlowState) -> float:
    return view.agent.jobs[flow.id.job].progress.weight


def _why_weight(weight: float, asked: float) -> str:
    if weight == asked:
        said = "it asks for no other" if asked == 1.0 else f"it asks for {asked:g}"
    else:
        said = f"it asks for {asked:g}, and [weights] in hostd's configuration says {weight:g}"
    return f"{said}; under paceline and crux a job is worth so many times what a job of weight 1 is"


def _bottleneck(view: HostView, flow: FlowState) -> dict[str, object]:
    """`link` is None where it is not known which; `links` are those it can be."""
    capacity_bps = {name: link.capacity_bps for name, link in view.topology.links.items()}
    found = bottleneck(view.agent, flow, capacity_bps, view.slot)
    lost = view.switch.silent
    silent = f"; silent, so that their links are missing: {', '.join(lost)}" if lost else ""
    return {
        "link": found.links[0] if len(found.links) == 1 else None,
        "links": list(found.links),
        "price": found.price,
        "room_bps": finite(found.room_bps) if found.room_bps is not None else None,
        "why": found.why + silent,
    }


def _dependency(flow: FlowState, names: JobNames) -> dict[str, object]:
    grant = flow.grant
    upstream_bytes = grant.upstream_bytes if grant else math.inf
    allowed = upstream_bytes + flow.spec.window_bytes
    return {
        "upstream": [names.shown_flow(feeder) for feeder in flow.spec.upstream],
        "sent_bytes": finite(flow.volume_bytes),
        "may_have_sent_bytes": finite(allowed),
        "waits_for_preds": flow.volume_bytes >= allowed,
    }


def _slots(flow: FlowState) -> list[dict[str, object]]:
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
