"""What is done about what happened: one decision at a time, on a clock that the test turns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hostd.driver import AgentDriver
from hostd.enforce.base import Others
from hostd.enforce.enforcer import Enforcer
from hostd.enforce.settings import EnforcementSettings
from hostd.monitor.monitor import Monitor
from hostd.report_filter import ReportFilter
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import (
    ClockSet,
    FlowDone,
    FlowReady,
    JobJoined,
    JobLeft,
    Limit,
    OthersSend,
    Tick,
    Together,
)
from paceline.flowcore.messages.journal import decode
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star_of
from paceline.flowcore.policy import POLICIES
from paceline.service.instruments import HostInstruments
from paceline.service.shared_clock import SharedClock

SLOT_NS = 60_000_000
TOPOLOGY = star_of(("h0", "h1"), 1.0)
FLOWS = [FlowId(job, "h0", "h1", Role.RING) for job in ("a", "b")]
JOINED = [JobJoined(flow.job, (FlowSpec(flow, 1e7, (), 0.0),)) for flow in FLOWS]


class Listening(Enforcer):
    """The one of advise mode, which sets nothing, and what it was told to set."""

    told: list[list[Limit]]

    def apply(self, limits: Sequence[Limit]) -> None:
        self.told.append(list(limits))
        super().apply(limits)


class Driven:
    """An agent and its driver; with a switch, `sent` is what it would hear."""

    def __init__(self, directory: Path, switch: str | None = None) -> None:
        topology = TOPOLOGY
        self.steady_ns = 0
        self.sent: list[Report] = []
        clock = self.clock = SharedClock(lambda: 0, lambda: self.steady_ns)
        self.agent = HostAgent("h0", topology, SlotClock(SLOT_NS, 10), POLICIES["paceline"](), switch)
        self.enforcer = Listening(EnforcementSettings(False, directory / "lease.json", 1e9), SLOT_NS)
        self.enforcer.told = []
        self.monitor = Monitor("h0", {}, 1e9, directory, lambda flow, sockets: None)
        self.journal = StringIO()
        instruments = HostInstruments(CollectorRegistry())
        self.driver = AgentDriver(
            self.agent,
            clock,
            self.monitor,
            self.enforcer,
            instruments,
            self.journal,
            ReportFilter(1000),
            {},
        )
        self.driver.send = self.sent.append if switch else None


@contextmanager
def opened(driven: Driven) -> Iterator[Driven]:
    yield driven
    driven.monitor.close()
    driven.enforcer.close()


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    with opened(Driven(tmp_path)) as made:
        yield made


@pytest.fixture
def with_switch(tmp_path: Path) -> Iterator[Driven]:
    with opened(Driven(tmp_path, "sw")) as made:
        yield made


def test_the_enforcer_holds_exactly_the_flows_that_the_agent_knows(driven: Driven) -> None:
    driven.driver.take(*JOINED)
    assert driven.enforcer.read_back().keys() == set(FLOWS)
    driven.driver.take(JobLeft("a"))
    assert driven.enforcer.read_back().keys() == {FLOWS[1]}


def test_a_job_that_leaves_and_comes_again_at_once_has_its_sockets_looked_up_anew(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven.driver.take(*JOINED)
    moved: list[tuple[str, FlowId]] = []
    monkeypatch.setattr(driven.enforcer, "detach", lambda flow: moved.append(("detach", flow)))
    monkeypatch.setattr(driven.enforcer, "attach", lambda flow, sockets: moved.append(("attach", flow)))
    driven.driver.take(JobLeft("a"), JOINED[0])
    assert moved == [("detach", FLOWS[0]), ("attach", FLOWS[0])]


def test_what_happened_at_one_time_is_set_at_once_and_only_as_it_ends(driven: Driven) -> None:
    driven.driver.take(*JOINED, *(FlowReady(flow, 0) for flow in FLOWS), FlowDone(FLOWS[0]))
    [limits] = driven.enforcer.told
    assert {limit.flow for limit in limits} == set(FLOWS) and len(limits) == 2
    for limit in limits:
        flow = driven.agent.flows[limit.flow]
        assert (limit.rate_bps, limit.ceiling_bps) == (flow.limit.rate_bps, flow.limit.ceiling_bps)


def test_the_switch_hears_of_all_flows_of_a_burst_in_one_report(with_switch: Driven) -> None:
    driven = with_switch
    driven.driver.take(*JOINED, *(FlowReady(flow, 0) for flow in FLOWS))
    [report] = driven.sent
    assert {claim.flow for claim in report.claims} == set(FLOWS)
    driven.steady_ns += 1_000_000
    answer = Feedback("sw", report.number, 0, ())
    driven.driver.take(answer)
    assert driven.agent.rtt_ns == 1_000_000, "the answer to it is the answer to each"


def test_the_switch_hears_of_cross_traffic_when_the_host_reports_and_it_is_another(
    with_switch: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven, load_bps = with_switch, 0.0
    found = lambda: {"eth0": Others(0, 9e8, load_bps), "eth1": Others(1, 1e8, load_bps)}  # noqa: E731
    monkeypatch.setattr(driven.enforcer.backend, "others", found)
    driven.driver.take(*JOINED, *(FlowReady(flow, 0) for flow in FLOWS))
    said, events = list[float](), 0
    for load_bps in (2e8, 2.04e8, 2.06e8, 0.0):  # noqa: B007 - found() has it
        driven.steady_ns += SLOT_NS
        driven.driver.take(Tick())
        said.append(driven.sent[-1].others_bps)
    assert said == [4e8, 4e8, 4.12e8, 0.0], "of all NICs together; less than a hundredth more is no news"
    events = driven.journal.getvalue().count("OthersSend")
    assert events == 3
    driven.driver.take(FlowDone(FLOWS[0]))
    assert driven.journal.getvalue().count("OthersSend") == events


def test_foreign_traffic_is_heard_of_although_nothing_is_due(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = True
    monkeypatch.setattr(driven.enforcer.backend, "others", lambda: {"eth0": Others(0, 9e8, 5e8, foreign)})
    assert driven.driver.foreign_news() == [OthersSend(5e8, foreign=True)]
    driven.driver.take(*driven.driver.foreign_news())
    assert driven.agent.meets_foreign and driven.driver.foreign_news() == [], "once"
    foreign = False
    driven.driver.take(*driven.driver.foreign_news())
    assert not driven.agent.meets_foreign and driven.driver.foreign_news() == []


def test_everything_is_in_the_journal(driven: Driven) -> None:
    events = [*JOINED, FlowReady(FLOWS[0], 0), JobLeft("b")]
    driven.driver.take(*events)
    [line] = driven.journal.getvalue().splitlines()
    assert decode(line).event == Together(tuple(events))
    assert driven.driver.durations.count == 1


def test_a_full_disk_ends_the_journal_and_nothing_else(driven: Driven, caplog: pytest.LogCaptureFixture) -> None:
    with Path("/dev/full").open("w") as full:
        driven.driver._journal = full
        driven.driver.take(*JOINED)
        driven.driver.take(FlowReady(FLOWS[0], 0))
    assert driven.enforcer.read_back().keys() == set(FLOWS) and driven.enforcer.told
    [line] = [record.getMessage() for record in caplog.records if record.name == "hostd.driver"]
    assert "No space left" in line


def test_slots_without_a_decision_count_while_something_is_sent(driven: Driven) -> None:
    driver = driven.driver
    driver.take(*JOINED)
    driven.steady_ns += 5 * SLOT_NS
    driver.judge(5)
    assert driver.missed_slots == 0, "nothing was sent"
    driver.take(FlowReady(FLOWS[0], 0))
    driven.steady_ns += SLOT_NS
    driver.take()
    assert driver.missed_slots == 0
    driven.steady_ns += 3 * SLOT_NS
    driver.judge(9)
    driver.judge(9)
    assert driver.missed_slots == 2


@pytest.mark.parametrize("by_slots", [-20, 20])
def test_a_clock_that_is_set_misses_no_slot_and_hides_none(driven: Driven, by_slots: int) -> None:
    driven.steady_ns = 100 * SLOT_NS
    driven.driver.take(*JOINED, FlowReady(FLOWS[0], 0))
    own_ns = driven.clock.own_ns()
    driven.clock.peer.observe(own_ns, *[own_ns + by_slots * SLOT_NS] * 2, own_ns)
    driven.driver.take()
    assert decode(driven.journal.getvalue().splitlines()[-1]).event == ClockSet(by_slots * SLOT_NS)
    assert driven.driver.missed_slots == 0
    driven.steady_ns += 4 * SLOT_NS
    driven.driver.take(Tick())
    assert driven.driver.missed_slots == 3


def test_a_job_with_a_number_that_no_switch_takes_leaves_and_the_rest_is_said(with_switch: Driven) -> None:
    """The switch would end the stream of the whole host."""
    driven, (bad, good) = with_switch, FLOWS
    driven.driver.take(*JOINED)
    driven.driver.take(FlowReady(bad, 10**13), FlowReady(good, 0))
    report, farewell = driven.sent
    assert [claim.flow for claim in report.claims] == [good]
    assert farewell.claims == () and [(gone.flow, gone.left) for gone in farewell.withdrawn] == [(bad, True)]
    assert driven.driver.expelled == {"a": "it has counted 1e+20 of something, expected 0 to 1e+18"}
    assert set(driven.agent.flows) == {good}
    events = [decode(line).event for line in driven.journal.getvalue().splitlines()]
    assert JobLeft("a") in events, "and a replay of the journal sees it, too"
