"""What jobs sent in the last slots: by job, only what is new, and anew after the clock was set back."""

from hostd.introspect.timeline import SLOTS, Timeline
from paceline.flowcore.model.patterns import FlowId, Role


def flow(job: str, target: str = "h1") -> FlowId:
    return FlowId(job, "h0", target, Role.RING)


def test_flows_are_summed_by_job_and_only_the_new_are_told() -> None:
    timeline = Timeline()
    timeline.note(7, {flow("a"): 1e6, flow("a", "h2"): 2e6, flow("b"): 0.0})
    timeline.note(9, {})
    assert timeline.since(-1) == [(7, {"a": 3_000_000}), (9, {})]
    assert timeline.since(7) == [(9, {})] and timeline.since(9) == []


def test_it_is_bounded_and_begins_anew_when_time_turns_back() -> None:
    timeline = Timeline()
    for slot in range(3 * SLOTS):
        timeline.note(slot, {})
    assert len(timeline.since(-1)) == SLOTS
    timeline.note(5, {flow("a"): 1e6})
    assert timeline.since(-1) == [(5, {"a": 1_000_000})]
