"""Which messages a switch may send: about flows below it, and answers about flows that cross its links."""

import pytest

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import Feedback, Grant, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import tree
from paceline.wire.codec import BadMessage, message_to_envelope
from switchd.config import SwitchConfig
from switchd.switch import Switch
from tests.switchd.fabric import claim, flow

TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))  # h0, h1: tor0; h2, h3: tor1; both under edge0; tor2, tor3 under edge1; agg
NEAR, FAR = flow("near", "h0", "h2"), flow("far", "h0", "h4")
ELSEWHERE, UNKNOWN = flow("elsewhere", "h4", "h0"), flow("x", "h99", "h0")


def made(name: str, policy: str = "paceline", **settings: int) -> Switch:
    parents = dict.fromkeys(TREE.parents.get(name, ()), "127.0.0.1:1")
    switch = Switch(SwitchConfig(name, "127.0.0.1:0", TREE, SlotsSpec(60_000.0, 10), policy, parents, **settings))
    for neighbour in (*switch.routes.children, *switch.routes.parents):
        switch.neighbour_connected(neighbour)
    return switch


def answer(sender: str, *flows: FlowId) -> Feedback:
    grants = [Grant(one, True, 0.0, 0.0, (1e9,) * 10, (0.0,) * 10, 1, 0.0, 0.0) for one in flows]
    return Feedback(sender, 1, 0, tuple(grants))


MESSAGES: dict[str, tuple[str, str, Message, str]] = {
    "claims that a child escalates": ("edge0", "tor0", EscalatedClaims("tor0", (claim(TREE, NEAR),), (FAR,)), ""),
    "a grandchild's host": ("agg", "edge0", EscalatedClaims("edge0", (claim(TREE, FAR),)), ""),
    "another child's flow escalated": (
        "edge0",
        "tor1",
        EscalatedClaims("tor1", (claim(TREE, FAR),)),
        "identity",
    ),
    "a flow from elsewhere escalated": (
        "edge0",
        "tor0",
        EscalatedClaims("tor0", (claim(TREE, ELSEWHERE),)),
        "identity",
    ),
    "no link known here": ("edge0", "tor0", EscalatedClaims("tor0", (claim(TREE, flow("x", "h6", "h7")),)), "identity"),
    "another child's flow withdrawn": ("edge0", "tor1", EscalatedClaims("tor1", (), (FAR,)), "identity"),
    "unknown host's flow withdrawn": (
        "edge0",
        "tor1",
        EscalatedClaims("tor1", (), (UNKNOWN,)),
        "identity",
    ),
    "an answer": ("tor0", "edge0", answer("edge0", NEAR), ""),
    "an answer of a switch beside the path": ("tor0", "agg", answer("agg", FAR, NEAR), "identity"),
    "an answer about another ToR's flow": ("tor0", "edge0", answer("edge0", ELSEWHERE), "identity"),
    "an answer about a flow to an unknown host": ("tor0", "edge0", answer("edge0", flow("x", "h0", "h99")), "flow"),
    "a decision": ("tor0", "edge0", ShareUpdate("edge0", (Share(FAR, 1e8, 1e9),)), ""),
}


@pytest.mark.parametrize("which", MESSAGES)
async def test_messages_of_switches(which: str) -> None:
    to, sender, message, reason = MESSAGES[which]
    switch = made(to)
    way = sender if sender in switch.neighbours else "edge0"
    before = switch.messages
    try:
        if reason:
            with pytest.raises(BadMessage) as refused:
                switch.take_envelope(way, message_to_envelope(sender, to, message))
            assert (refused.value.reason, switch.messages) == (reason, before)  # nothing of it was believed
        else:
            switch.take_envelope(way, message_to_envelope(sender, to, message))
            assert switch.messages == before + 1
    finally:
        switch.close()


@pytest.mark.parametrize(
    ("to", "sender", "message"),
    [
        ("edge0", "tor0", EscalatedClaims("tor0", (claim(TREE, NEAR),))),
        ("tor0", "edge0", ShareUpdate("edge0", (Share(FAR, 1e8, 1e9),))),
    ],
    ids=["escalated_claims", "share_update"],
)
async def test_a_switch_without_an_arbiter_divides_nothing(to: str, sender: str, message: Message) -> None:
    switch = made(to, "mlcc")
    with pytest.raises(BadMessage, match="does not do") as refused:
        switch.take_envelope(sender, message_to_envelope(sender, to, message))
    assert refused.value.reason == "policy"
    switch.close()


async def test_a_host_that_names_too_many_flows_costs_its_rack_nothing() -> None:
    """A ToR may count otherwise, and passes on the claims of all its hosts in one message."""
    switch, most = made("edge0", max_flows_per_host=2), 2
    greedy = [claim(TREE, flow(f"job{number}", "h0", "h2")) for number in range(2 * most)]
    modest, slot = claim(TREE, flow("modest", "h1", "h2")), switch.slots.index(switch.clock.now_ns())
    switch.take_envelope("tor0", message_to_envelope("tor0", "edge0", Report("tor0", 1, slot, (*greedy, modest))))
    table = switch.agent.table
    assert [one.flow in table for one in (*greedy, modest)] == [True] * most + [False] * most + [True]
    escalated = EscalatedClaims("tor0", (*greedy, modest))
    switch.take_envelope("tor0", message_to_envelope("tor0", "edge0", escalated))
    assert switch.agent.arbitration is not None and switch.agent.arbitration.size == most + 1
    assert switch.refused["flows"] == 2
    outbox = switch.neighbours["tor0"]
    before = len(outbox)
    switch.take_envelope("tor0", message_to_envelope("tor0", "edge0", Report("tor0", 2, slot, tuple(greedy[most:]))))
    assert len(outbox) == before + 1, "it is answered, or this switch would count as silent"
    switch.close()
