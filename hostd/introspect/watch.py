"""What `paceline web` asks a few times a second: the status, what was sent in the slots since, and why flows wait."""

from typing import Any

from hostd.introspect.explain import explain
from hostd.introspect.host_view import HostView
from hostd.introspect.status import finite, status
from hostd.introspect.timeline import Timeline

MOST_FLOWS = 32  # explaining one takes a tenth of a millisecond


def watch(view: HostView, timeline: Timeline, since: object) -> dict[str, object]:
    names = view.names
    live = [names.shown_flow(flow.id) for flow in view.agent.live_flows()][:MOST_FLOWS]
    slots = timeline.since(since if isinstance(since, int) else -1)
    return {
        "status": status(view),
        "slots": [(slot, {names.shown(job): bps for job, bps in sent.items()}) for slot, sent in slots],
        "why": {flow: _why(found) for flow in live if "error" not in (found := explain(view, flow))},
    }


def _why(found: dict[str, Any]) -> dict[str, object]:
    return {
        "because": found["because"],
        "bottleneck": found["bottleneck"]["link"],
        "waits": found["dependency"]["waits_for_preds"] or (found["granted"] is not None and found["at_floor"]),
        "urgency": finite(found["bid"]["urgency"]),
    }
