"""Frames: nothing is lost or doubled by going in several, and none is too large for its receiver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.events import Message, Send
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import tree
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import FlowPaths, message_from_envelope, message_to_envelope
from switchd import frames as frames_module
from switchd.frames import FRAME_BYTES, Outgoing, frames
from tests.switchd.fabric import Fabric, flow, until

TREE = tree(8, 2, 1, (10.0, 10.0, 10.0))
PATHS = FlowPaths(TREE)
NAME = "j" * 200
FLOWS = [flow(f"{NAME}{n}", f"h{n % 8}", f"h{8 + n % 8}") for n in range(4000)]


def claim(number: int) -> Claim:
    path = TREE.path(FLOWS[number].source, FLOWS[number].target, str(FLOWS[number]))
    return Claim(FLOWS[number], path, 25e6, Bid(1.0), 0.0, 0.0, (), (), (1e5,) * 10)


def message(kind: str, number: int, flows: list[int]) -> Message:
    match kind:
        case "report":
            gone = tuple(Withdrawal(FLOWS[n], 1.0) for n in flows[::3])
            return Report("tor0", number, 7, tuple(map(claim, flows)), gone)
        case "escalated_claims":
            return EscalatedClaims("tor0", tuple(map(claim, flows)), tuple(FLOWS[n] for n in flows[::2]))
        case "feedback":
            grants = [Grant(FLOWS[n], True, 0.0, 0.0, (1e9,) * 10, (0.0,) * 10, 1, 0.0, 0.0) for n in flows]
            return Feedback("tor0", number, 7, tuple(grants))
        case _:
            return ShareUpdate("tor0", tuple(Share(FLOWS[n], float(number), 1e9) for n in flows))


def sent(outgoing: list[Outgoing]) -> list[bytes]:
    return list(frames("tor0", outgoing, lambda envelopes: pb.Frame(envelope=envelopes).SerializeToString()))


def words(data: list[bytes]) -> list[tuple[str, FlowId, object]]:
    """What is said about each flow, in order."""
    said: list[tuple[str, FlowId, object]] = []
    for frame in data:
        for wire in pb.Frame.FromString(frame).envelope:
            match message_from_envelope(wire, PATHS):
                case Report(_, _, slot, claims, withdrawn):
                    said += [("gone", one.flow, (slot, one)) for one in withdrawn]
                    said += [("claimed", one.flow, (slot, one)) for one in claims]
                case EscalatedClaims(_, claims, withdrawn):
                    said += [("recalled", one, None) for one in withdrawn]
                    said += [("escalated", one.flow, one) for one in claims]
                case Feedback(_, _, slot, grants):
                    said += [("granted", one.flow, (slot, one)) for one in grants]
                case ShareUpdate(_, shares):
                    said += [("given", one.flow, one) for one in shares]
    return said


kinds = st.sampled_from(("report", "escalated_claims", "feedback", "share_update"))
numbers = st.lists(st.integers(0, 30), max_size=30, unique=True)


@given(kinds, numbers, st.integers(100, 20_000))
def test_a_message_in_parts_says_the_same(kind: str, flows: list[int], limit: int) -> None:
    whole = message(kind, 1, flows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_module, "FRAME_BYTES", limit)
        parts = sent([Send("edge0", whole)])
    assert words(parts) == words([pb.Frame(envelope=[message_to_envelope("tor0", "edge0", whole)]).SerializeToString()])
    assert all(len(part) <= limit or len(words([part])) <= 1 for part in parts)


@given(st.lists(st.tuples(kinds, numbers), max_size=6), st.integers(100, 40_000))
def test_however_they_are_cut_the_last_word_on_a_flow_is_the_same(said: list[tuple], limit: int) -> None:
    outgoing: list[Outgoing] = [Send("edge0", message(kind, n, flows)) for n, (kind, flows) in enumerate(said)]
    outgoing.append(message_to_envelope("tor9", "agg", ShareUpdate("tor9", (Share(FLOWS[99], 1.0, 2.0),))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_module, "FRAME_BYTES", limit)
        parts = words(sent(outgoing))
    whole = words(sent(outgoing))
    assert {(kind, about): word for kind, about, word in parts} == {(kind, about): word for kind, about, word in whole}


def test_a_message_too_large_for_any_receiver_is_dropped() -> None:
    vast = claim(0)._replace(upstream=tuple(FLOWS) * 2)
    assert sent([Send("edge0", Report("tor0", 1, 7, (vast, claim(1))))]) == sent(
        [Send("edge0", Report("tor0", 1, 7, (claim(1),)))]
    )


async def test_what_a_whole_rack_says_at_once(fabric) -> None:
    """More than a message may have waits for the parent: the stream holds, and everything arrives."""
    net: Fabric = await fabric(TREE, slots=SlotsSpec(20_000.0, 10))
    outbox = net.switch("tor0").neighbours["edge0"]
    slot = net.slot("edge0")
    claims = [claim(n) for n in range(len(FLOWS))]
    for start in range(8):
        outbox.put(Send("edge0", Report("tor0", start + 1, slot, tuple(claims[start::8]))))
    whole = pb.Frame(envelope=[message_to_envelope("tor0", "edge0", Report("tor0", 1, slot, tuple(claims)))])
    assert whole.ByteSize() > MAX_MESSAGE_BYTES > 2 * FRAME_BYTES
    await until(lambda: len(net.switch("edge0").agent.table) == len(FLOWS))
    assert net.switch("tor0").neighbours["edge0"] is outbox
    assert not net.switch("edge0").refused
