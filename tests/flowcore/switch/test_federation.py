"""What a ToR asks the other switches on its flows' paths, and what it makes of their answers."""

from dataclasses import replace

from paceline.flowcore.messages.events import Send
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.federation import Federation

SLOT = 9
KEEPER = {"h0->tor0": "tor0", "tor0->h1": "tor0", "tor0->agg": "tor0", "agg->tor1": "agg", "tor1->h9": "tor1"}
NEAR, FAR = FlowId("a", "h0", "h1", Role.RING), FlowId("b", "h0", "h9", Role.RING)
PATHS = {NEAR: ("h0->tor0", "tor0->h1"), FAR: ("h0->tor0", "tor0->agg", "agg->tor1", "tor1->h9")}


def report(*flows: FlowId, withdrawn: tuple[FlowId, ...] = ()) -> Report:
    claims = tuple(Claim(flow, PATHS[flow], 25e6, Bid(1.0), 0.0, 0.0, (), ()) for flow in flows)
    return Report("h0", 1, 7, claims, tuple(Withdrawal(flow, 25e6) for flow in withdrawn))


def grant(flow: FlowId, available_bps: float) -> Grant:
    return Grant(flow, True, 0.0, 0.0, (available_bps,) * 3, (0.1,) * 3, 1, UNLIMITED, 0.0)


def test_a_claim_goes_to_the_other_switches_on_its_path_and_no_further() -> None:
    forwarded = Federation("tor0", KEEPER).forward(report(NEAR, FAR), 5, SLOT)
    assert {send.to for send in forwarded.sends if isinstance(send, Send)} == {"agg", "tor1"}
    for send in forwarded.sends:
        assert isinstance(send, Send) and isinstance(send.message, Report)
        assert [claim.flow for claim in send.message.claims] == [FAR]
        assert (send.message.sender, send.message.number, send.message.first_slot) == ("tor0", 5, 7)
    assert forwarded.asked == {FAR: {"agg", "tor1"}}


def test_a_silent_switch_is_asked_but_not_waited_for() -> None:
    federation = Federation("tor0", KEEPER)
    federation.silent.add("agg")
    forwarded = federation.forward(report(FAR), 5, SLOT)
    assert len(forwarded.sends) == 2 and forwarded.asked == {FAR: {"tor1"}}


def test_a_withdrawal_goes_where_the_claim_went() -> None:
    federation = Federation("tor0", KEEPER)
    assert federation.forward(report(withdrawn=(FAR,)), 4, SLOT).sends == [], "it was never claimed"
    federation.forward(report(FAR), 5, SLOT)
    sends = federation.forward(report(withdrawn=(FAR,)), 6, SLOT).sends
    gone = [(send.to, send.message) for send in sends if isinstance(send, Send)]
    assert {message.first_slot for _, message in gone if isinstance(message, Report)} == {SLOT}, "it has no date"
    assert [(to, [one.flow for one in message.withdrawn]) for to, message in gone if isinstance(message, Report)] == [
        ("agg", [FAR]),
        ("tor1", [FAR]),
    ]
    assert federation.heard(Feedback("agg", 5, 7, (grant(FAR, 1e9),))) == []


def test_a_flow_that_is_withdrawn_and_claimed_in_one_report_is_known_afterwards() -> None:
    federation = Federation("tor0", KEEPER)
    federation.forward(report(FAR), 5, SLOT)
    federation.forward(report(FAR, withdrawn=(FAR,)), 6, SLOT)
    assert federation.heard(Feedback("agg", 6, 7, (grant(FAR, 1e9),))) == [FAR]


def test_answers_are_merged_with_our_own_until_their_switch_is_lost() -> None:
    federation = Federation("tor0", KEEPER)
    own = grant(FAR, 1e9)
    federation.forward(report(FAR), 5, SLOT)
    assert federation.merge(own, 7) == own
    federation.heard(Feedback("agg", 5, 7, (grant(FAR, 3e8), grant(NEAR, 1.0))))
    assert federation.merge(own, 7).available_bps == (3e8,) * 3
    assert federation.merge(own, 9).available_bps == (3e8, 1e9, 1e9), "two slots later it says less"
    federation.lose({"agg"})
    assert federation.merge(own, 7) == own and federation.silent == {"agg"}


def test_numbers_grow_also_after_a_restart() -> None:
    federation = Federation("tor0", KEEPER)
    first = federation.next_number(1_000)
    assert federation.next_number(1_000) > first
    assert Federation("tor0", KEEPER).next_number(2_000) > federation.next_number(1_500)


def test_a_flow_that_was_forgotten_is_still_withdrawn_and_misses_no_switch() -> None:
    federation = Federation("tor0", KEEPER)
    federation.forward(report(FAR), 5, SLOT)
    federation.lose({"agg"})
    assert federation.missed == {"agg"}
    federation.forget(FAR)
    assert federation.missed == set() and federation.silent == {"agg"}
    assert len(federation.forward(report(withdrawn=(FAR,)), 6, SLOT).sends) == 2


def test_of_a_flow_of_which_only_the_ends_are_seen_the_parent_hears_from_below() -> None:
    federation, ends = Federation("tor1", KEEPER), (PATHS[FAR][0], PATHS[FAR][-1])
    seen = report(FAR)
    [told] = federation.pass_up(replace(seen, claims=(seen.claims[0]._replace(path=ends),)), 5, "edge1", {FAR})
    assert isinstance(told, Send) and isinstance(told.message, Report) and told.to == "edge1"
    assert [claim.flow for claim in told.message.claims] == [FAR]
    [gone] = federation.pass_up(report(withdrawn=(FAR, NEAR)), 6, "edge1", {FAR})
    assert isinstance(gone, Send) and isinstance(gone.message, Report)
    assert [one.flow for one in gone.message.withdrawn] == [FAR], "the other was never passed on"
    assert federation.pass_up(report(withdrawn=(FAR,)), 7, "edge1", {FAR}) == []


def test_of_a_flow_whose_whole_path_is_claimed_the_parent_knows() -> None:
    assert Federation("tor1", KEEPER).pass_up(report(FAR), 5, "edge1", {FAR}) == []
