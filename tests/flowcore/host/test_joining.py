"""What happened at one time is answered in one go, by daemons and simulators alike."""

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.host.joining import joined, together
from paceline.flowcore.messages.events import FlowReady, HostEvent, JobJoined, Limit, Send, Tick, Together
from paceline.flowcore.messages.reports import Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES

FLOWS = [FlowId("a", "h0", target, Role.PUSH) for target in ("h1", "h2")]
JOINED = JobJoined("a", tuple(FlowSpec(flow, 1e8, (), 0.0) for flow in FLOWS))
READY: list[HostEvent] = [FlowReady(flow, 0) for flow in FLOWS]


def agent() -> HostAgent:
    made = HostAgent("h0", star(3, 1.0), SlotClock(60_000_000, 10), POLICIES["paceline"](), "switch")
    made.handle(JOINED, 0)
    return made


def reports(effects: list[Send | Limit]) -> list[Report]:
    return [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Report)]


def test_a_bursts_claims_are_one_report() -> None:
    [report] = reports(agent().handle(together(READY), 1))
    assert [claim.flow for claim in report.claims] == FLOWS


def test_it_says_what_the_reports_one_after_the_other_would() -> None:
    """Each flow bids with what was ready by then, as it does alone."""
    one_by_one = agent()
    apart = [claim for event in READY for report in reports(one_by_one.handle(event, 1)) for claim in report.claims]
    [report] = reports(agent().handle(together(READY), 1))
    assert list(report.claims) == apart


def test_of_each_flow_the_last_limit_counts() -> None:
    first, last = Limit(FLOWS[0], 1e6, 1e9), Limit(FLOWS[0], 5e8, 1e9)
    gone = Report("h0", 3, 0, (), (Withdrawal(FLOWS[1], 1.0),))
    assert joined([first, Send("switch", gone), last]) == [Send("switch", gone), last]


def test_one_event_is_itself() -> None:
    assert together([Tick()]) == Tick()
    assert together(READY) == Together(tuple(READY))
