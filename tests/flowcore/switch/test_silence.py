"""A switch whose parent is gone: answers at once, says which switches are missing, divides alone, and takes it back."""

from heapq import heappop, heappush
from itertools import count

import pytest

from paceline.flowcore.messages.events import PeersFound, PeersLost, Send, SwitchEvent, Tick
from paceline.flowcore.messages.reports import Claim, Feedback, Grant, Report
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from tests.flowcore.switch.fabric import CLOCK, FAR, GBPS, SLOT_NS, TREE, Fabric, flow
from tests.flowcore.switch.fabric import claim as claim_in

NEAR = flow("near", "h0", "h1")  # within tor0
FAR_TOO = flow("far-too", "h1", "h5")
OTHERS = ("agg", "edge0", "edge1", "tor2")  # the other switches on the path of FAR


def claim(which: FlowId, *plan_bps: float, urgency: float = 1.0) -> Claim:
    return claim_in(TREE, which, plan_bps, urgency=urgency)


class LossyTree(Fabric):
    """The tree, as tests here ask it: a report's number and what its host hears at once."""

    def __init__(self, policy: str) -> None:
        super().__init__(TREE, policy)

    def ask(self, host: str, *claims: Claim) -> tuple[int, list[Feedback]]:
        self.report(host, *claims)
        return self.number, self.inbox.get(host, [])

    def wait(self, slots: float) -> list[Feedback]:
        """Time passes, with ticks as they fall due; what hosts hear meanwhile."""
        before = len(self.heard)
        self.wait_until(self.now_ns + round(slots * SLOT_NS))
        return [feedback for _, feedback in self.heard[before:]]

    def lose(self, *switches: str) -> None:
        """The shell of tor0 notices at once."""
        self.dead |= set(switches)
        self.tell("tor0", PeersLost(switches))


@pytest.mark.parametrize("named", [(FAR, NEAR), (NEAR, FAR), (FAR,)])
def test_what_a_newer_report_names_is_answered_with_it_alone(named: tuple[FlowId, ...]) -> None:
    """A switch that is late would otherwise be later for having answered everything twice."""
    agent = SwitchAgent("tor0", domains(TREE)["tor0"], CLOCK, POLICIES["mlcc"]())
    agent.handle(Report("h0", 1, 0, (claim(FAR), claim(NEAR))), 0)
    effects = agent.handle(Report("h0", 2, 0, tuple(map(claim, named))), 1)
    to_host = [effect.message for effect in effects if isinstance(effect, Send) and effect.to == "h0"]
    answered = [(one.answers, [grant.flow for grant in one.grants]) for one in to_host if isinstance(one, Feedback)]
    assert answered == ([] if NEAR in named else [(1, [NEAR])])


@pytest.mark.parametrize("policy", ["mlcc", "paceline", "fifo"])
def test_every_report_gets_one_answer(policy: str) -> None:
    fabric = LossyTree(policy)
    asked: list[int] = []
    for slot in range(6):
        asked.append(fabric.ask("h0", claim(FAR, 1e8), claim(NEAR, 1e8))[0])
        asked.append(fabric.ask("h1", claim(FAR_TOO, 1e8))[0])
        asked.append(fabric.ask("h4", claim(flow("r", "h4", "h0")))[0])
        if slot == 3:
            fabric.lose(*OTHERS)
        fabric.wait(1)
    fabric.wait(3)
    answers = [feedback.answers for _, feedback in fabric.heard if feedback.answers >= 0]
    alive = [number for number in asked if (number - 1) % 3 != 2 or number <= 12]  # h4's own ToR died with slot 3
    assert sorted(answers) == alive


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_after_a_loss_hosts_are_answered_at_once_and_told(policy: str) -> None:
    fabric = LossyTree(policy)
    _, [before] = fabric.ask("h0", claim(FAR))
    assert before.silent == ()
    fabric.lose(*OTHERS)
    number, heard = fabric.ask("h0", claim(FAR, 1e8), claim(NEAR, 1e8))
    assert [feedback.answers for feedback in heard if feedback.answers >= 0] == [number]
    assert all(feedback.silent == OTHERS for feedback in heard)
    assert {grant.flow for feedback in heard for grant in feedback.grants} == {FAR, NEAR}


def test_a_loss_answers_the_reports_that_wait() -> None:
    fabric = LossyTree("mlcc")
    fabric.dead = set(OTHERS)  # not noticed yet
    number, heard = fabric.ask("h0", claim(FAR))
    assert heard == []
    fabric.lose(*OTHERS)
    assert [(to, feedback.answers) for to, feedback in fabric.heard] == [("h0", number)]


@pytest.mark.parametrize("policy", ["paceline", "fifo"])
def test_alone_it_divides_what_it_knows_within_capacity(policy: str) -> None:
    fabric = LossyTree(policy)
    fabric.lose(*OTHERS)
    one, other = flow("one", "h0", "h4"), flow("other", "h0", "h5")
    fabric.ask("h0", claim(one, urgency=2.0), claim(other, urgency=1.0))
    fabric.ask("h1", claim(FAR_TOO, urgency=3.0))
    fabric.wait(1)
    shares = {grant.flow: grant.share_bps for _, feedback in fabric.heard for grant in feedback.grants}
    assert len(shares) == 3
    assert sum(shares.values()) == pytest.approx(1.5 * GBPS)  # tor0->edge0 carries all three
    assert shares[one] + shares[other] <= GBPS * (1 + 1e-9)
    arbitration = fabric.switches["tor0"].arbitration
    assert arbitration is not None and arbitration.peak_ratio <= 1 + 1e-9


def test_alone_its_table_still_refuses() -> None:
    fabric = LossyTree("mlcc")
    fabric.lose(*OTHERS)
    fabric.ask("h1", claim(FAR_TOO, 9e8))
    _, [refused] = fabric.ask("h0", claim(FAR, 9e8))  # 1.5 Gbit/s from tor0 upwards
    assert [grant.accepted for grant in refused.grants] == [False]
    _, [fits] = fabric.ask("h0", claim(FAR, 5e8))
    assert [grant.accepted for grant in fits.grants] == [True]


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_the_first_word_ends_the_silence(policy: str) -> None:
    fabric = LossyTree(policy)
    fabric.ask("h0", claim(FAR))
    fabric.lose(*OTHERS)
    assert fabric.ask("h0", claim(FAR))[1][-1].silent == OTHERS
    fabric.dead.clear()
    fabric.ask("h0", claim(FAR))  # is forwarded also to the silent, whose answers end it
    assert fabric.switches["tor0"].silent == set()
    _, heard = fabric.ask("h0", claim(FAR, 1e8))
    assert heard[-1].silent == ()
    assert FAR in fabric.switches["agg"].table  # and it was rebuilt


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_silence_is_noticed_without_the_shell(policy: str) -> None:
    """The shell does not say that the parent is lost: an overdue answer does."""
    fabric = LossyTree(policy)
    fabric.ask("h0", claim(FAR))
    fabric.dead = {"agg"}
    number, _ = fabric.ask("h0", claim(FAR, 1e8))
    heard = fabric.wait(3)
    assert number in [feedback.answers for feedback in heard]
    number, [answer, *_] = fabric.ask("h0", claim(FAR, 1e8))
    assert (answer.answers, answer.silent) == (number, ("agg",))
    fabric.dead.clear()
    fabric.ask("h0", claim(FAR, 1e8))
    assert fabric.ask("h0", claim(FAR, 1e8))[1][-1].silent == ()


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_silence_is_noticed_though_every_slot_brings_a_newer_report(policy: str) -> None:
    """The newer one takes over how long its flows have been waited for."""
    fabric = LossyTree(policy)
    fabric.dead = {"agg"}
    answered: list[Feedback] = []
    for _ in range(6):
        number, heard = fabric.ask("h0", claim(FAR, 1e8), claim(NEAR, 1e8))
        answered += [feedback for feedback in (*heard, *fabric.wait(1)) if feedback.answers == number]
    assert len(answered) >= 3  # with an arbiter no switch decides about FAR, which waits for that every other slot
    assert all(feedback.silent == ("agg",) for feedback in answered[1:])
    assert fabric.switches["tor0"].silent == {"agg"}


def test_a_switch_that_a_newer_flow_waits_for_has_its_slot_as_well() -> None:
    """agg is gone and FAR waits for it; tor1 has only just been asked about the flow beside it, and is not late."""
    fabric = LossyTree("mlcc")
    fabric.dead = {"agg", "tor1"}
    beside = flow("beside", "h0", "h2")
    fabric.ask("h0", claim(FAR))
    fabric.wait(1.9)
    number, _ = fabric.ask("h0", claim(FAR), claim(beside))
    [answer, *_] = fabric.wait(0.2)
    assert (answer.answers, fabric.switches["tor0"].silent) == (number, {"agg"})


def test_a_switch_that_needs_more_than_a_slot_is_late_and_not_silent() -> None:
    """Its word on the report before is what the answer is made of."""
    agent = SwitchAgent("tor0", domains(TREE)["tor0"], CLOCK, POLICIES["mlcc"]())
    beside = flow("beside", "h0", "h2")  # tor0 - edge0 - tor1
    grant = Grant(beside, True, 0.0, 0.0, (GBPS,) * 10, (0.0,) * 10, 1, 0.0, 0.0)
    order = count()
    coming: list[tuple[int, int, SwitchEvent]] = []
    for slot in range(8):
        heappush(coming, (slot * SLOT_NS, next(order), Tick()))
        heappush(coming, (slot * SLOT_NS + 1, next(order), Report("h0", slot, slot, (claim(beside, 1e8),))))
    answered: list[int] = []
    while coming:
        now_ns, _, event = heappop(coming)
        for effect in agent.handle(event, now_ns):
            assert isinstance(effect, Send)
            if isinstance(message := effect.message, Report):
                takes_ns = round((1.3 if effect.to == "edge0" else 0.1) * SLOT_NS)
                answer = Feedback(effect.to, message.number, message.first_slot, (grant,))
                heappush(coming, (now_ns + takes_ns, next(order), answer))
            elif isinstance(message, Feedback) and message.answers >= 0:
                answered.append(message.answers)
        assert not agent.silent
    assert len(answered) >= 3


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
def test_after_a_long_stall_the_answer_comes_before_the_entry_ends(policy: str) -> None:
    """No tick came for longer than entries last: the report that waited is answered all the same."""
    fabric = LossyTree(policy)
    fabric.dead = {"agg"}
    number, heard = fabric.ask("h0", claim(FAR, 1e8))
    assert heard == []
    fabric.now_ns = 9 * SLOT_NS
    fabric.tell("tor0", Tick())
    assert number in [feedback.answers for _, feedback in fabric.heard]


def test_switches_that_no_report_asks_are_found_by_the_shell() -> None:
    fabric = LossyTree("paceline")
    fabric.ask("h0", claim(NEAR))
    fabric.lose("agg", "edge0")
    assert fabric.ask("h0", claim(NEAR))[1][-1].silent == ("agg", "edge0")
    fabric.dead.clear()
    fabric.tell("tor0", PeersFound(("agg", "edge0")))
    assert fabric.ask("h0", claim(NEAR))[1][-1].silent == ()


def test_what_a_lost_switch_had_promised_is_forgotten() -> None:
    fabric = LossyTree("mlcc")
    fabric.ask("h5", claim(flow("z", "h5", "h4"), 8e8))
    assert fabric.ask("h0", claim(FAR))[1][0].grants[0].available_bps[0] == pytest.approx(2e8)
    fabric.lose("tor2")
    assert fabric.ask("h0", claim(FAR))[1][0].grants[0].available_bps[0] == GBPS


def test_the_parents_shares_come_back_with_it() -> None:
    """Alone, tor0 gives FAR its NIC; the tree knows a more urgent job on the way to h4."""
    fabric = LossyTree("fifo")
    rival = flow("rival", "h2", "h4")
    fabric.ask("h2", claim(rival, urgency=9.0))
    assert fabric.ask("h0", claim(FAR))[1][-1].grants[0].share_bps == 0.0
    fabric.lose(*OTHERS, "tor1")
    assert fabric.ask("h0", claim(FAR))[1][-1].grants[0].share_bps == GBPS
    fabric.dead.clear()
    for _ in range(2):
        fabric.ask("h2", claim(rival, urgency=9.0))
        fabric.ask("h0", claim(FAR))
        fabric.wait(1)
    grants = [grant for _, feedback in fabric.heard for grant in feedback.grants if grant.flow == FAR]
    assert grants[-1].share_bps == 0.0


def beside_a_deaf_parent(every_ns: int, until_ns: int) -> list[int]:
    """tor0's tables are answered for and nobody decides; when it held its parent to be silent."""
    agent = SwitchAgent("tor0", domains(TREE)["tor0"], CLOCK, POLICIES["paceline"]())
    grant = Grant(FAR, True, 0.0, 0.0, (GBPS,) * 10, (0.0,) * 10, 1, 0.0, 0.0)
    silent_ns = []
    for now_ns in range(0, until_ns, every_ns):
        for effect in agent.handle(Report("h0", now_ns, CLOCK.index(now_ns), (claim(FAR),)), now_ns):
            if isinstance(effect, Send) and isinstance(asked := effect.message, Report):
                agent.handle(Feedback(effect.to, asked.number, asked.first_slot, (grant,)), now_ns + 1)
        agent.handle(Tick(), now_ns + 2)
        assert agent.arbitration is not None
        share = agent.arbitration.shares.get(FAR)
        if share is not None and share.share_bps > 0:
            silent_ns.append(now_ns)
    return silent_ns


@pytest.mark.parametrize("ticks_per_slot", [2, 3, 24])
def test_a_parent_that_answers_for_its_table_and_never_decides_is_given_up(ticks_per_slot: int) -> None:
    """By time, however often links are divided: beside many claims that is every few milliseconds, and each was half a
    slot of silence. While it counts as there, its silence costs flows all but a floor."""
    silent_ns = beside_a_deaf_parent(SLOT_NS // ticks_per_slot, 8 * SLOT_NS)
    assert silent_ns
    assert 3 * SLOT_NS <= silent_ns[0] <= 4.1 * SLOT_NS
