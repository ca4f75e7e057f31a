"""Flows that come and leave beside many: the first is settled at once, those that follow within a moment together."""

import pytest

from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.arbitration import Reallocation
from paceline.flowcore.switch.gathering import FEW_CLAIMS, GAPS_PER_SLOT, NS_PER_CLAIM, Gathering
from tests.flowcore.switch.fabric import CLOCK, GBPS, SLOT_NS, STAR, TREE, A, B, C, Fabric, claim, flow

MOMENT_NS = 1_000_000
GAP_NS = SLOT_NS // GAPS_PER_SLOT
FAR = flow("far", "h1", "h4")


class Gatherer(Fabric):
    """Its switches gather from the first flow on."""

    def fresh(self, name: str) -> SwitchAgent:
        gathering = Gathering(SLOT_NS, few_claims=0, ns_per_claim=SLOT_NS)
        return SwitchAgent(name, domains(self.topology)[name], CLOCK, POLICIES[self.policy](), gathering)


def answers(fabric: Fabric) -> list[tuple[str, Feedback]]:
    return [(host, feedback) for host, got in fabric.inbox.items() for feedback in got if feedback.answers > 0]


def test_the_gap_grows_with_the_claims_up_to_a_quarter_of_a_slot() -> None:
    gathering = Gathering(SLOT_NS)
    assert gathering.due_ns(1000, 5) == 5  # the first
    gathering.divided(5)
    assert gathering.due_ns(FEW_CLAIMS, 6) == 6
    assert gathering.due_ns(FEW_CLAIMS + 1, 6) == 5 + (FEW_CLAIMS + 1) * NS_PER_CLAIM
    assert gathering.due_ns(1000, 6) == 5 + GAP_NS
    assert gathering.due_ns(1000, 5 + GAP_NS) == 5 + GAP_NS


def test_a_clock_that_was_set_back_makes_no_flow_wait_longer() -> None:
    gathering = Gathering(SLOT_NS)
    gathering.divided(10 * SLOT_NS)
    assert gathering.due_ns(1000, 0) == GAP_NS


def test_the_first_flow_has_its_share_at_once_and_the_next_ones_together() -> None:
    fabric = Gatherer(STAR, "paceline")
    assert fabric.report("h0", claim(STAR, A))[A].share_bps == GBPS
    fabric.wait_until(MOMENT_NS)
    assert fabric.report("h3", claim(STAR, C)) == {}
    fabric.wait_until(2 * MOMENT_NS)
    assert fabric.report("h0", claim(STAR, A), claim(STAR, B)) == {}
    assert fabric.wait_until(GAP_NS - 1) == {}
    shares = fabric.wait_until(GAP_NS)
    assert shares.keys() == {A, B, C}
    assert sorted((host, feedback.answers) for host, feedback in answers(fabric)) == [("h0", 3), ("h3", 2)]
    assert shares[A].share_bps + shares[C].share_bps <= GBPS  # into h1
    assert shares[A].share_bps + shares[B].share_bps <= GBPS  # out of h0


def test_what_a_flow_leaves_is_given_away_within_the_gap() -> None:
    fabric = Gatherer(STAR, "paceline")
    fabric.report("h0", claim(STAR, A, urgency=9.0))
    fabric.wait_until(GAP_NS)
    assert fabric.report("h3", claim(STAR, C))[C].share_bps < GBPS
    assert fabric.report("h0", withdrawn=(A,)) == {}
    assert fabric.wait_until(2 * GAP_NS)[C].share_bps == GBPS


def test_a_flow_that_waits_is_answered_in_its_newer_report() -> None:
    fabric = Gatherer(STAR, "paceline")
    fabric.report("h0", claim(STAR, A))
    fabric.report("h3", claim(STAR, C))
    fabric.wait_until(MOMENT_NS)
    assert fabric.report("h3", claim(STAR, C)) == {}
    fabric.wait_until(GAP_NS)
    assert [(host, feedback.answers) for host, feedback in answers(fabric)] == [("h3", 3)]


def test_a_flow_that_leaves_before_its_answer_gets_none() -> None:
    fabric = Gatherer(STAR, "paceline")
    fabric.report("h0", claim(STAR, A))
    fabric.report("h3", claim(STAR, C))
    fabric.report("h3", withdrawn=(C,))
    assert C not in fabric.wait_until(SLOT_NS)


def test_a_flow_that_the_parent_decides_about_waits_for_it_after_the_gap() -> None:
    fabric = Gatherer(TREE, "paceline")
    fabric.report("h0", claim(TREE, A))
    assert fabric.report("h1", claim(TREE, FAR)) == {}
    assert [fabric.wait_until(GAP_NS)[FAR].share_bps, len(answers(fabric))] == [GBPS, 1]


@pytest.mark.parametrize(("flows", "least", "most"), [(FEW_CLAIMS // 2, 99, 101), (160, 4, 8)])
def test_links_are_divided_a_few_times_a_slot_beside_many_flows(
    flows: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = Fabric(STAR, "paceline")
    fabric.report("h3", *(claim(STAR, flow(f"j{n}", "h3", f"h{n % 3}")) for n in range(flows)))
    fabric.wait_until(SLOT_NS)
    arbitration = fabric.switches["sw"].arbitration
    assert arbitration is not None
    divide, divided = arbitration.reallocate, list[int]()

    def noted(now_ns: int, *, alone: bool = False) -> Reallocation:
        divided.append(now_ns)
        return divide(now_ns, alone=alone)

    monkeypatch.setattr(arbitration, "reallocate", noted)
    told = set[FlowId]()
    for n in range(50):  # within one slot a flow comes and leaves
        late = flow(f"late{n}", "h0", "h1")
        told |= fabric.report("h0", claim(STAR, late)).keys()
        told |= fabric.wait_until(SLOT_NS + (n + 1) * SLOT_NS // 50).keys()
        if n < 49:
            told |= fabric.report("h0", withdrawn=(late,)).keys()
    told |= fabric.wait_until(2 * SLOT_NS + GAP_NS).keys()
    assert late in told
    assert least <= len(divided) <= most
