"""What is done about what happened: one decision at a time, on a clock that the test turns."""

from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hostd.config import HostConfig
from hostd.driver import Decider
from hostd.enforce.enforcer import Enforcer
from hostd.monitor.monitor import Monitor
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import FlowDone, FlowReady, JobJoined, JobLeft, Limit, Tick
from paceline.flowcore.messages.journal import decode
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star_of
from paceline.flowcore.policy import POLICIES
from paceline.service.instruments import HostInstruments
from paceline.service.shared_clock import SharedClock
from paceline.wire.host_stream import HostStream

SLOT_NS = 60_000_000
TOPOLOGY = star_of(("h0", "h1"), 1.0)
FLOWS = [FlowId(job, "h0", "h1", Role.RING) for job in ("a", "b")]
JOINED = [JobJoined(flow.job, (FlowSpec(flow, 1e6, (), 0.0),)) for flow in FLOWS]


class Listening(Enforcer):
    """The one of advise mode, which sets nothing, and what it was told to set."""

    told: list[list[Limit]]

    def apply(self, limits: Sequence[Limit]) -> None:
        self.told.append(list(limits))
        super().apply(limits)


class Kept(HostStream):
    """Leads nowhere."""

    def __init__(self) -> None:
        self.sent: list[Report] = []

    def send(self, report: Report) -> bool:
        self.sent.append(report)
        return True


class Deciding:
    def __init__(self, directory: Path) -> None:
        topology = TOPOLOGY
        self.steady_ns = 0
        clock = self.clock = SharedClock(lambda: 0, lambda: self.steady_ns)
        self.agent = HostAgent("h0", topology, SlotClock(SLOT_NS, 10), POLICIES["paceline"](), None)
        self.enforcer = Listening(HostConfig("h0", topology, {}, mode="advise", runtime_directory=directory), SLOT_NS)
        self.enforcer.told = []
        self.monitor = Monitor("h0", {}, 1e9, directory, lambda flow, sockets: None)
        self.journal = StringIO()
        instruments = HostInstruments(CollectorRegistry())
        self.decider = Decider(self.agent, clock, self.monitor, self.enforcer, instruments, self.journal)


@pytest.fixture
def deciding(tmp_path: Path) -> Iterator[Deciding]:
    made = Deciding(tmp_path)
    yield made
    made.monitor.close()
    made.enforcer.close()


def test_the_enforcer_holds_exactly_the_flows_that_the_agent_knows(deciding: Deciding) -> None:
    deciding.decider.take(JOINED)
    assert deciding.enforcer.read_back().keys() == set(FLOWS)
    deciding.decider.take([JobLeft("a")])
    assert deciding.enforcer.read_back().keys() == {FLOWS[1]}


def test_what_happened_at_one_time_is_set_at_once_and_only_as_it_ends(deciding: Deciding) -> None:
    deciding.decider.take([*JOINED, *(FlowReady(flow, 0) for flow in FLOWS), FlowDone(FLOWS[0])])
    [limits] = deciding.enforcer.told
    assert {limit.flow for limit in limits} == set(FLOWS) and len(limits) == 2
    for limit in limits:
        flow = deciding.agent.flows[limit.flow]
        assert (limit.rate_bps, limit.ceiling_bps) == (flow.limit.rate_bps, flow.limit.ceiling_bps)


def test_the_switch_hears_of_all_flows_of_a_burst_in_one_report(deciding: Deciding) -> None:
    agent = deciding.decider._agent = HostAgent("h0", TOPOLOGY, SlotClock(SLOT_NS, 10), POLICIES["paceline"](), "sw")
    stream = deciding.decider.stream = Kept()
    deciding.decider.take([*JOINED, *(FlowReady(flow, 0) for flow in FLOWS)])
    [report] = stream.sent
    assert {claim.flow for claim in report.claims} == set(FLOWS)
    deciding.steady_ns += 1_000_000
    answer = Feedback("sw", report.number, 0, ())
    deciding.decider.take([answer])
    assert agent.rtt_ns == 1_000_000, "the answer to it is the answer to each"


def test_everything_is_in_the_journal(deciding: Deciding) -> None:
    events = [*JOINED, FlowReady(FLOWS[0], 0), JobLeft("b")]
    deciding.decider.take(events)
    assert [decode(line).event for line in deciding.journal.getvalue().splitlines()] == events
    assert deciding.decider.durations.count == 1


def test_a_full_disk_ends_the_journal_and_nothing_else(deciding: Deciding, caplog: pytest.LogCaptureFixture) -> None:
    with Path("/dev/full").open("w") as full:
        deciding.decider._journal = full
        deciding.decider.take(JOINED)
        deciding.decider.take([FlowReady(FLOWS[0], 0)])
    assert deciding.enforcer.read_back().keys() == set(FLOWS) and deciding.enforcer.told
    [line] = [record.getMessage() for record in caplog.records if record.name == "hostd.driver"]
    assert "No space left" in line


def test_slots_without_a_decision_count_while_something_is_sent(deciding: Deciding) -> None:
    decider = deciding.decider
    decider.take(JOINED)
    deciding.steady_ns += 5 * SLOT_NS
    decider.judge(5)
    assert decider.missed_slots == 0, "nothing was sent"
    decider.take([FlowReady(FLOWS[0], 0)])
    deciding.steady_ns += SLOT_NS
    decider.take([])
    assert decider.missed_slots == 0
    deciding.steady_ns += 3 * SLOT_NS
    decider.judge(9)
    decider.judge(9)
    assert decider.missed_slots == 2


@pytest.mark.parametrize("by_slots", [-20, 20])
def test_a_clock_that_is_set_misses_no_slot_and_hides_none(deciding: Deciding, by_slots: int) -> None:
    deciding.steady_ns = 100 * SLOT_NS
    deciding.decider.take([*JOINED, FlowReady(FLOWS[0], 0)])
    own_ns = deciding.clock.own_ns()
    deciding.clock.peer.observe(own_ns, *[own_ns + by_slots * SLOT_NS] * 2, own_ns)
    step_ns = deciding.clock.take_step()
    assert step_ns == by_slots * SLOT_NS
    deciding.decider.clock_set(step_ns)
    assert deciding.decider.missed_slots == 0
    deciding.steady_ns += 4 * SLOT_NS
    deciding.decider.take([Tick()])
    assert deciding.decider.missed_slots == 3
