"""A burst of a few round trips asks for no turn: its claim would outlive it."""

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import FLOOR_BPS, Effect, FlowDone, FlowReady, JobJoined, Limit, Send, Tick
from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy.paceline import Paceline

FLOW = FlowId("a", "h0", "h1", Role.RING)
SIZE = 25e6  # 200 ms
MS = 1_000_000


def agent() -> HostAgent:
    made = HostAgent("h0", star(2, 1.0), SlotClock(60 * MS, 10, 0), Paceline(), "sw")
    made.handle(JobJoined("a", (FlowSpec(FLOW, SIZE, (), 0.0),)), 0)
    return made


def reports(effects: list[Effect]) -> list[Report]:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Report)]


def test_a_long_burst_asks_and_a_short_one_does_not() -> None:
    host = agent()
    asked = host.handle(FlowReady(FLOW, 0), MS)
    assert [claim.flow for report in reports(asked) for claim in report.claims] == [FLOW]
    host = agent()
    effects = host.handle(FlowReady(FLOW, 0, SIZE / 100), MS)
    assert reports(effects) == [] and effects == [Limit(FLOW, 1e9, 1e9)]
    assert reports(host.handle(FlowDone(FLOW), 3 * MS)) == []


def test_a_short_burst_that_lasts_asks_after_all() -> None:
    host = agent()
    host.handle(FlowReady(FLOW, 0, SIZE / 100), MS)
    asked = [report for slot in (60, 120, 180) for report in reports(host.handle(Tick(), slot * MS))]
    assert [claim.flow for report in asked for claim in report.claims][:1] == [FLOW]


def test_a_short_burst_after_a_long_one_continues_the_iteration() -> None:
    host = agent()
    host.handle(FlowReady(FLOW, 0, 0.9 * SIZE), MS)
    host.handle(FlowDone(FLOW), 200 * MS)
    flow = host.flows[FLOW]
    assert flow.sent_bytes == 0.9 * SIZE and flow.limit == Limit(FLOW, FLOOR_BPS, 1e9)
    assert not host.jobs["a"].progress.communicating, "it computes"
    host.handle(FlowReady(FLOW, 0, 0.91 * SIZE), 250 * MS)
    assert flow.limit == Limit(FLOW, 1e9, 1e9) and flow.remaining_bytes == 0.91 * SIZE - 0.9 * SIZE
    host.handle(FlowReady(FLOW, 0, SIZE), 251 * MS)
    assert flow.remaining_bytes == SIZE - 0.9 * SIZE, "the burst has grown"
    host.handle(FlowDone(FLOW), 300 * MS)
    host.handle(FlowReady(FLOW, 1), 400 * MS)
    assert flow.sent_bytes == 0.0 and flow.remaining_bytes == SIZE


def test_a_host_that_asks_nothing_misses_no_answer() -> None:
    host = agent()
    for number in range(20):
        host.handle(FlowReady(FLOW, 0, SIZE * (number + 1) / 100), (100 * number + 1) * MS)
        host.handle(Tick(), (100 * number + 20) * MS)
        host.handle(FlowDone(FLOW), (100 * number + 30) * MS)
    assert not host.isolated


def test_one_late_answer_is_not_the_last_that_is_asked_for() -> None:
    host = agent()
    host.answers.rtt_ns = 1000 * MS
    assert reports(host.handle(FlowReady(FLOW, 0), MS)), "a burst of several slots"
