"""Who is told that nobody competes with its job, and who hears when somebody does."""

import pytest

from paceline.flowcore.messages.events import Send
from paceline.flowcore.messages.reports import NO_ANSWER, Feedback
from paceline.flowcore.model.background import BACKGROUNDS, TRAINING_FIRST
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS
from tests.flowcore.switch.fabric import CLOCK, FAR, SLOT_NS, STAR, TREE, A, B, C, Fabric, claim, domains, flow

ENTRY_LAPSES_SLOTS = 6


def met(fabric: Fabric, host: str) -> list[FlowId]:
    """What it was told in the last event that somebody competes with."""
    return [flow for one in fabric.inbox.get(host, []) for flow in one.contended]


def renewed(fabric: Fabric, one: FlowId) -> bool:
    return fabric.report(one.source, claim(fabric.topology, one))[one].uncontended


def test_a_job_is_told_until_another_claims_one_of_its_links() -> None:
    fabric = Fabric(STAR, "paceline")
    assert fabric.report("h0", claim(STAR, A))[A].uncontended
    away = flow("elsewhere", "h2", "h3")
    assert fabric.report("h2", claim(STAR, away))[away].uncontended
    answered = fabric.report("h3", claim(STAR, C))
    assert not answered[C].uncontended, "both send to h1"
    assert met(fabric, "h0") == [A] and met(fabric, "h2") == []
    assert not renewed(fabric, A) and renewed(fabric, away)


def test_flows_of_one_job_do_not_compete() -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h0", claim(STAR, flow("a", "h0", "h1")))
    assert fabric.report("h3", claim(STAR, flow("a", "h3", "h1")))[flow("a", "h3", "h1")].uncontended


def test_a_job_whose_claim_has_lapsed_hears_of_another_at_once() -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h0", claim(STAR, A))
    fabric.wait_until(ENTRY_LAPSES_SLOTS * SLOT_NS)
    assert A not in fabric.switches["sw"].table
    heard = fabric.report("h3", claim(STAR, C))
    assert met(fabric, "h0") == [A] and A not in heard
    fabric.report("h0", claim(STAR, B))
    assert met(fabric, "h0") == [], "once is enough"


def test_a_job_is_alone_again_when_the_other_has_been_forgotten() -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h3", claim(STAR, C))
    assert not fabric.report("h0", claim(STAR, A))[A].uncontended
    for slot in range(0, JOB_MEMORY_SLOTS + ENTRY_LAPSES_SLOTS, 2):
        fabric.wait_until(slot * SLOT_NS)
        answered = fabric.report("h0", claim(STAR, A))
    assert answered[A].uncontended


@pytest.mark.parametrize("rival", [("h2", "h5"), ("h6", "h4"), ("h1", "h5")])
def test_every_link_of_a_path_through_several_switches_counts(rival: tuple[str, str]) -> None:
    fabric = Fabric(TREE, "paceline")
    assert fabric.report("h0", claim(TREE, FAR))[FAR].uncontended
    fabric.wait_until(ENTRY_LAPSES_SLOTS * SLOT_NS)
    one = flow("rival", *rival)
    assert not fabric.report(rival[0], claim(TREE, one))[one].uncontended
    assert FAR in met(fabric, "h0"), "its ToR passes on what the others say of a flow without a claim"
    assert not renewed(fabric, FAR)


def test_all_of_a_hosts_flows_hear_of_it_through_other_switches() -> None:
    """A ToR passed on the last of them only."""
    fabric = Fabric(TREE, "paceline")
    both = flow("one", "h0", "h4"), flow("other", "h0", "h4")
    tor = fabric.switches["tor0"]
    for one in both:
        fabric.report("h0", claim(TREE, one))
    effects = tor.handle(Feedback("agg", NO_ANSWER, fabric.slot, (), (), both), fabric.now_ns)
    told = [one.message for one in effects if isinstance(one, Send) and one.to == "h0"]
    assert [one.contended for one in told if isinstance(one, Feedback) and one.contended] == [both]


def test_where_its_tor_does_not_know_all_of_a_job_somebody_may_compete_with_the_rest() -> None:
    fabric = Fabric(TREE, "paceline")
    members = [flow("ring", source, target) for source, target in (("h0", "h2"), ("h2", "h4"), ("h4", "h0"))]
    for _ in range(2):
        for at, one in enumerate(members):
            asked = claim(TREE, one)._replace(upstream=(members[at - 1],), downstream=(members[at - 2],))
            assert not fabric.report(one.source, asked)[one].uncontended
    pair = flow("pair", "h1", "h5"), flow("pair", "h5", "h1")
    for _ in range(2):
        for one, other in (pair, pair[::-1]):
            asked = claim(TREE, one)._replace(upstream=(other,), downstream=(other,))
            answered = fabric.report(one.source, asked)[one]
    assert not answered.uncontended, "they share links with the ring"


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("policy", ["paceline", "mlcc", "fifo", "fair"])
def test_only_where_hosts_leave_such_jobs_alone(policy: str, background: str) -> None:
    """Training that comes first does so beside cross traffic, and claims are what that is seen by."""
    agent = SwitchAgent("sw", domains(STAR)["sw"], CLOCK, POLICIES[policy](), background=background)
    fabric = Fabric(STAR, policy)
    fabric.switches["sw"] = agent
    expected = policy == "paceline" and background != TRAINING_FIRST
    assert fabric.report("h0", claim(STAR, A))[A].uncontended == expected


def test_a_job_is_alone_again_as_soon_as_the_other_has_left_all_its_hosts() -> None:
    """Its claims are over, as between bursts: only that it left says that it will not come again."""
    fabric = Fabric(STAR, "paceline")
    other = flow("c", "h2", "h1")
    fabric.report("h3", claim(STAR, C))
    fabric.report("h2", claim(STAR, other))
    assert other.job == C.job and not fabric.report("h0", claim(STAR, A))[A].uncontended
    fabric.report("h3", withdrawn=(C,))
    fabric.report("h2", withdrawn=(other,))
    assert not renewed(fabric, A)
    fabric.report("h3", left=(C,))
    assert not renewed(fabric, A), "its other host may claim again"
    fabric.report("h2", left=(other,))
    assert renewed(fabric, A) and not fabric.switches["sw"].remembers(C.job)


def test_every_switch_on_its_path_hears_that_a_job_has_left() -> None:
    fabric = Fabric(TREE, "paceline")
    fabric.report("h0", claim(TREE, FAR))
    fabric.report("h0", withdrawn=(FAR,))
    there = [name for name, switch in fabric.switches.items() if switch.remembers(FAR.job)]
    assert len(there) > 1
    fabric.report("h0", left=(FAR,))
    assert not any(switch.remembers(FAR.job) for switch in fabric.switches.values())
