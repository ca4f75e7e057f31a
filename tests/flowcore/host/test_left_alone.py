"""A job that nobody competes with sends as it likes, and its host says next to nothing."""

import pytest

from paceline.flowcore.host.policy import REMIND_SLOTS
from paceline.flowcore.messages.events import FLOOR_BPS, Effect, JobLeft, Limit, OthersSend, SwitchLost, Welcomed
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback, Withdrawal
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from tests.flowcore.host.scripted_host import GBPS, MS, SLOT_NS, Host, grant, ring

ITERATION_NS = 8 * SLOT_NS


def left_alone(policy: str = "paceline", silent: tuple[str, ...] = ()) -> tuple[Host, FlowId]:
    """A host whose job has had one burst, about which the switch said that nobody competes."""
    host = Host(policy)
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    host.until(4 * MS)
    answer = Feedback("sw", host.reports()[-1][1].number, 0, (grant(flow, GBPS)._replace(uncontended=True),), silent)
    host.tell(answer)
    host.until(200 * MS)
    host.done(flow)
    return host, flow


def met(host: Host, flow: FlowId) -> list[Effect]:
    """Its switch says that somebody competes."""
    return host.tell(Feedback("sw", NO_ANSWER, host.agent.clock.index(host.now_ns), (), (), (flow,)))


def test_its_bursts_are_its_own_affair() -> None:
    host, flow = left_alone()
    assert len(host.claims_of(flow)) == 1 and len(host.withdrawals_of(flow)) == 1, "at once, and then no more"
    [(_, withdrawal)] = [(when, gone) for when, report in host.reports() for gone in report.withdrawn]
    assert withdrawal.volume_bytes == UNLIMITED, "no other flow waits for it"
    before = len(host.log)
    for iteration in range(1, 5):
        host.ready(flow, iteration * ITERATION_NS, iteration)
        host.until(host.now_ns + 200 * MS)
        host.done(flow)
    assert host.log[before:] == [], "no claim, and no limit changes"
    assert host.limit_of(flow) == (UNLIMITED, UNLIMITED), "since its first burst ended"
    assert host.agent.next_deadline() is None
    assert host.agent.leaves_alone(flow.job)
    met(host, flow)
    assert not host.agent.leaves_alone(flow.job)


def test_a_switch_hears_that_a_job_has_left() -> None:
    """Also of one that has no claim: other jobs may be alone from now on."""
    host, flow = left_alone()
    host.tell(JobLeft(flow.job))
    assert host.reports()[-1][1].withdrawn == (Withdrawal(flow, UNLIMITED, left=True),)
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    before = len(host.reports())
    host.tell(JobLeft(flow.job))
    assert len(host.reports()) == before, "no switch knows it"


def test_a_job_that_joins_with_other_sizes_has_not_left() -> None:
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.ready(flow, 0)
    [other] = host.join(ring("a", "h0", "h2"))
    [left] = host.reports()[-1][1].withdrawn
    assert left.left and left.flow == flow
    host.ready(other, host.now_ns)
    host.join(ring("a", "h0", "h2"))
    [stays] = host.reports()[-1][1].withdrawn
    assert not stays.left and stays.flow == other
    host.tell(JobLeft("a"))
    [left] = host.reports()[-1][1].withdrawn
    assert left.left and left.flow == other, "though it has not claimed since it joined"


def test_it_reminds_its_switch_now_and_then() -> None:
    host, flow = left_alone()
    host.ready(flow, ITERATION_NS, 1)
    host.until(REMIND_SLOTS * SLOT_NS - 1)
    assert host.claims_of(flow, since_ns=1) == []
    host.until((REMIND_SLOTS + ITERATION_NS // SLOT_NS + 1) * SLOT_NS)
    assert len(host.claims_of(flow, since_ns=1)) >= 1, "in the middle of a long burst"
    host, flow = left_alone()
    host.ready(flow, (REMIND_SLOTS + 1) * SLOT_NS, 1)
    assert host.claims_of(flow, since_ns=1) == [(REMIND_SLOTS + 1) * SLOT_NS], "as one begins"
    host.answer(grant(flow, GBPS)._replace(uncontended=True))
    before = len(host.reports())
    host.until(host.now_ns + 5 * SLOT_NS)
    assert len(host.reports()) == before
    assert host.limit_of(flow) == (UNLIMITED, UNLIMITED), "a burst does not come under a limit for that"


@pytest.mark.parametrize("by", ["a word about a flow without a claim", "a share of a claim that has not lapsed"])
def test_it_claims_as_soon_as_somebody_competes(by: str) -> None:
    host, flow = left_alone()
    host.ready(flow, ITERATION_NS, 1)
    host.until(ITERATION_NS + 50 * MS)
    effects = met(host, flow) if by.startswith("a word") else host.answer(grant(flow, 0.0), push=True)
    assert host.claims_of(flow, since_ns=1) == [host.now_ns]
    assert Limit(flow, 1e6, GBPS) in effects, "what it has from now on is the switch's to say"
    host.answer(grant(flow, GBPS / 2))
    assert host.limit_of(flow)[0] == GBPS / 2
    host.until(host.now_ns + 3 * SLOT_NS)
    assert len(host.claims_of(flow, since_ns=host.now_ns - 3 * SLOT_NS)) >= 3, "once a slot"


def test_of_a_word_between_bursts_the_next_one_knows() -> None:
    host, flow = left_alone()
    met(host, flow)
    assert host.limit_of(flow) == (FLOOR_BPS, GBPS), "its first bytes, too"
    host.ready(flow, ITERATION_NS, 1)
    assert host.claims_of(flow, since_ns=1) == [ITERATION_NS]


@pytest.mark.parametrize("event", [SwitchLost(), Welcomed(0)])
def test_without_the_switch_that_said_so_it_claims_again(event: SwitchLost | Welcomed) -> None:
    host, flow = left_alone()
    host.ready(flow, ITERATION_NS, 1)
    host.until(ITERATION_NS + 20 * MS)
    host.tell(event)
    host.until(host.now_ns + SLOT_NS)
    assert host.claims_of(flow, since_ns=ITERATION_NS)


@pytest.mark.parametrize(("policy", "silent"), [("srpt", ()), ("fifo", ()), ("paceline", ("spine0",))])
def test_no_job_is_left_alone_where_policies_want_claims_or_switches_are_missing(
    policy: str, silent: tuple[str, ...]
) -> None:
    host, flow = left_alone(policy, silent)
    host.ready(flow, ITERATION_NS, 1)
    host.until(ITERATION_NS + SLOT_NS)
    assert host.claims_of(flow, since_ns=ITERATION_NS)


def test_beside_jobs_that_are_left_to_tcp_it_is_one_of_tcps() -> None:
    """Unless training comes first: then its switch does not say that nobody competes."""
    host = Host()
    [flow] = host.join(ring("a", "h0", "h1"))
    host.tell(OthersSend(0.4 * GBPS, foreign=False))
    host.ready(flow, 0)
    host.until(4 * MS)
    host.answer(grant(flow, GBPS)._replace(uncontended=True))
    host.until(100 * MS)
    host.done(flow)
    host.tell(OthersSend(0.5 * GBPS, foreign=False))
    assert host.agent.leaves_alone(flow.job) and host.limit_of(flow) == (UNLIMITED, UNLIMITED)


def test_beside_foreign_traffic_it_claims_and_keeps_its_part_until_that_has_gone() -> None:
    host, flow = left_alone()
    host.tell(OthersSend(0.4 * GBPS, foreign=True))
    host.ready(flow, ITERATION_NS, 1)
    assert host.claims_of(flow, since_ns=ITERATION_NS) and host.limit_of(flow)[0] < UNLIMITED
    host.answer(grant(flow, GBPS)._replace(uncontended=True))
    host.until(ITERATION_NS + 100 * MS)
    host.done(flow)
    assert not host.agent.leaves_alone(flow.job)
    host.tell(OthersSend(0.0, foreign=False))
    host.ready(flow, 2 * ITERATION_NS, 2)
    host.answer(grant(flow, GBPS)._replace(uncontended=True))
    host.until(2 * ITERATION_NS + 100 * MS)
    host.done(flow)
    assert host.agent.leaves_alone(flow.job) and host.limit_of(flow) == (UNLIMITED, UNLIMITED)


def test_all_flows_of_a_job_must_be_uncontended() -> None:
    """What one of them sends says how long the others have to wait for it."""
    host = Host()
    first, second = host.join(ring("a", "h0", "h1"), ring("b", "h0", "h2"))
    for flow in (first, second):
        host.ready(flow, 0)
    job = host.agent.jobs["a"]
    job.flows.append(host.agent.flows[second])  # as of a job with two
    host.answer(grant(first, GBPS)._replace(uncontended=True))
    assert not job.uncontended
    host.until(host.now_ns + SLOT_NS)
    assert host.claims_of(first, since_ns=1)
