"""The stream to a parent: whatever goes wrong with it, it is opened again, and the switch goes on."""

import asyncio

import pytest

from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import tree
from paceline.wire import control_pb2 as pb
from switchd import switch as switch_module
from switchd.config import SwitchConfig
from switchd.streams import Streams
from switchd.switch import Switch
from switchd.uplink import Uplink
from tests.switchd.fabric import Fabric, claim, flow, until

TREE = tree(2, 2, 1, (1.0, 1.0, 1.0))  # h0, h1 - tor0 - edge0 - tor1 - h2, h3; agg above
TERMS = {"slots": SlotsSpec(60.0, 10), "policy": "mlcc", "parents": {"edge0": "127.0.0.1:1"}}
FAR = claim(TREE, flow("far", "h0", "h2"), 1e8)


async def test_a_parent_that_does_not_read_is_asked_again(fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    """More waits than may: the stream ends for both directions, and the next one works."""
    monkeypatch.setattr(switch_module, "SWITCH_OUTBOX", 8)
    net: Fabric = await fabric(TREE)
    h0, tor = await net.joined("h0"), net.switch("tor0")
    assert (await h0.ask(FAR)).silent == ()
    full = tor.neighbours["edge0"]
    for _ in range(9):  # nothing is written in between
        full.put(pb.Envelope(source="tor0", to="edge0", unreachable=True))
    assert full.closed
    await until(lambda: tor.neighbours.get("edge0") not in (None, full))
    await net.connected()
    assert (await h0.ask(FAR)).silent == ()
    assert tor.refused == {"slow": 1}


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"policy": "paceline"}, "policy"), ({"slots": SlotsSpec(30.0, 10)}, "slot_length")],
    ids=["policy", "slots"],
)
async def test_a_child_that_was_configured_otherwise_is_refused(fabric, options: dict, reason: str) -> None:
    net: Fabric = await fabric(TREE)
    edge, odd = net.switch("edge0"), Switch(SwitchConfig("tor0", "127.0.0.1:0", TREE, **(TERMS | options)))
    await net.stop("tor0")
    uplink = asyncio.create_task(Uplink(odd, Streams(odd), "edge0", net.address("edge0")).run())
    try:
        await until(lambda: edge.refused[reason] >= 2)  # and it goes on asking
        assert "tor0" not in edge.neighbours
        assert not odd.neighbours
    finally:
        uplink.cancel()
        await asyncio.gather(uplink, return_exceptions=True)
        odd.close()


@pytest.mark.parametrize(
    ("odd", "reason"), [({"policy": "paceline"}, "policy"), ({"slot_length_ns": 1}, "slot_length")], ids=str
)
async def test_a_parent_that_does_not_compare_is_refused(fabric, monkeypatch, odd: dict, reason: str) -> None:
    right = Streams._welcome

    def other(streams: Streams, name: str) -> pb.Welcome:
        welcome = right(streams, name)
        welcome.MergeFrom(pb.Welcome(**odd))
        return welcome

    net: Fabric = await fabric(TREE)
    monkeypatch.setattr(Streams, "_welcome", other)
    tor = net.switch("tor0")
    tor.neighbours["edge0"].close()  # so that it greets again
    await until(lambda: tor.refused[reason] >= 2)
    assert "edge0" not in tor.neighbours


async def test_an_error_of_ours_ends_the_stream_and_not_the_switch(fabric, monkeypatch) -> None:
    net: Fabric = await fabric(TREE)
    h0, tor = await net.joined("h0"), net.switch("tor0")
    right, failed = Switch.take_envelope, []

    def faulty(switch: Switch, neighbour: str, envelope: pb.Envelope) -> None:
        if switch is tor and not failed:
            failed.append(neighbour)
            raise AssertionError("a mistake")
        right(switch, neighbour, envelope)

    monkeypatch.setattr(Switch, "take_envelope", faulty)
    await h0.send(FAR)
    await until(lambda: tor.refused["error"] == 1)
    await until(lambda: "edge0" in tor.neighbours)
    await net.connected()
    assert (await h0.ask(FAR)).silent == ()
