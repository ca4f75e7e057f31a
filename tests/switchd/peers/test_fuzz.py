"""A hundred thousand malformed messages: no crash, no growth, no wrong table.

Most go straight to where a stream hands over its bytes, which is what makes so many affordable; some thousands
travel over real streams. Each test says how many of its own were refused; together that is more than a hundred
thousand. Nothing but BadMessage may come out: a stream that raises anything else has crashed.
"""

import asyncio
import gc
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import cast

import grpc
import pytest

from paceline.flowcore.messages.escalation import EscalatedClaims, Share, ShareUpdate
from paceline.flowcore.messages.reports import Feedback, Grant, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import star, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import REPORT, BadMessage, flow_of, message_to_envelope, text_of
from switchd import rate_limit
from switchd.config import SwitchConfig
from switchd.handshake import Context, parse
from switchd.streams import Streams
from switchd.switch import Switch
from tests.switchd.fabric import Fabric, claim, flow, until

pytestmark = pytest.mark.slow

STAR = star(4, 1.0)
TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
LONG_SLOTS = SlotsSpec(60_000.0, 10)  # so that what was true at the beginning of a test is true at its end
GOOD = flow("good", "h0", "h2")
NONSENSE = [0.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, 1e18, 1e9, 5e8]
TEXTS = ["", "x", "a/ring/h1>h2", "a/push/h1>h9", "a/ring/h0>h1", "ring/h1>h2", "\n", "é" * 200, "b/pull/h1>h3", "h0"]
COLUMNS = [field.name for field in pb.Claims.DESCRIPTOR.fields]


def messages(draws: random.Random, count: int, whole: list[bytes], nonsense) -> Iterator[bytes]:
    """Random bytes, valid messages with something wrong in their bytes, and nonsense in good form."""
    for _ in range(count):
        kind = draws.random()
        if kind < 0.1:
            yield draws.randbytes(draws.randrange(60))
        elif kind < 0.75:
            data = bytearray(draws.choice(whole))
            for _ in range(draws.randrange(1, 5)):
                at = draws.randrange(len(data) + 1)
                match draws.randrange(5):
                    case 0:
                        del data[at : at + draws.randrange(1, 9)]
                    case 1:
                        data[at:at] = draws.randbytes(draws.randrange(1, 9))
                    case 2:
                        data = data[:at]
                    case _ if at < len(data):
                        data[at] = draws.randrange(256)
            yield bytes(data)
        else:
            yield nonsense(draws)


def host_message(draws: random.Random, slot: int) -> bytes:
    """A message of h1 whose columns hold nonsense."""
    claims = pb.Claims()
    flows = draws.randrange(4)
    for name in COLUMNS:
        column, length = getattr(claims, name), flows if draws.random() < 0.9 else draws.randrange(6)
        if name in ("flow", "upstream", "downstream"):
            column.extend(draws.choice(TEXTS) for _ in range(length))
        elif name in ("upstream_count", "downstream_count", "plan_slots"):
            column.extend(draws.choice((0, 1, 1, 10, 2**32 - 1)) for _ in range(length))
        elif name in ("weighable", "unstoppable"):
            column.extend(draws.random() < 0.5 for _ in range(length))
        else:
            column.extend(draws.choice(NONSENSE) for _ in range(length))
    report = pb.Report(
        sender=draws.choice(("h1", "h1", "h1", "h0", "")),
        number=draws.choice((0, 1, 2**63, 2**64 - 1)),
        first_slot=draws.choice((slot, slot, slot + 11, -(2**63), 2**63 - 1)),
        claims=claims,
        withdrawn=[draws.choice(TEXTS) for _ in range(draws.randrange(3))],
        withdrawn_bytes=[draws.choice(NONSENSE) for _ in range(draws.randrange(3))],
    )
    return pb.HostMessage(sent_ns=draws.choice((0, -(2**63), 2**63 - 1)), report=report).SerializeToString()


def valid_messages(slot: int) -> list[bytes]:
    """What h1 may say."""
    flows = [flow(f"job{n}", "h1", target) for n, target in enumerate(("h0", "h2", "h3"))]
    reports = [Report("h1", n, slot, tuple(claim(STAR, one, *[9e8] * n) for one in flows[: n + 1])) for n in range(6)]
    return [pb.HostMessage(sent_ns=1, report=REPORT.to_wire(one)).SerializeToString() for one in reports]


class OneMessage:
    """What a host's stream has after its Hello."""

    def __init__(self, data: bytes) -> None:
        self._left = [data, grpc.aio.EOF]

    async def read(self) -> object:
        return self._left.pop(0)


def held(switch: Switch) -> int:
    """Blocks of memory in use, but for the caches, which have limits of their own."""
    flow_of.cache_clear()
    text_of.cache_clear()
    switch._place.paths.path.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
async def test_what_hosts_might_send(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MESSAGES_PER_SLOT", 10**9)  # this is not about floods
    monkeypatch.setattr(rate_limit, "TIMES_PER_FLOW", 10**9)
    monkeypatch.setattr(rate_limit, "BYTES_PER_SLOT", 10**12)
    switch = Switch(SwitchConfig("sw", "127.0.0.1:0", STAR, LONG_SLOTS, policy))
    streams, outcomes, draws = Streams(switch), Counter(), random.Random(1)
    slot = switch.slots.index(switch.clock.now_ns())
    whole = valid_messages(slot)
    switch.host_connected("h0")
    switch.take_report("h0", REPORT.to_wire(Report("h0", 1, slot, (claim(STAR, GOOD, *[5e8] * 10),))))
    sizes = []
    for _ in range(4):
        session = switch.host_connected("h1")
        for data in messages(draws, 10_000, whole, lambda draws: host_message(draws, slot)):
            before = switch.refused.total()
            try:
                await streams._host_reads("h1", session, cast(Context, OneMessage(data)))
                outcomes["taken" if switch.refused.total() == before else "in part"] += 1
            except BadMessage as error:
                outcomes[error.reason] += 1
                switch.host_disconnected("h1", session)
                session = switch.host_connected("h1")
            if not outcomes.total() % 500:
                await asyncio.sleep(0)
                switch.take_report("h0", REPORT.to_wire(Report("h0", 1, slot, (claim(STAR, GOOD, *[5e8] * 10),))))
                switch.hosts["h0"].outbox._items.clear()
        sizes.append(held(switch))
    switch.close()
    assert outcomes.total() == 40_000
    assert {"shape", "flow", "identity", "slot", "in part"} <= outcomes.keys() and "numbers" in switch.refused
    assert outcomes.total() - outcomes["taken"] >= 37_000
    check_table(switch, GOOD)
    # Within this one long slot nothing expires, and now and then a mutant is a new flow. A block kept for every message
    # would be nine per cent.
    assert sizes[-1] < sizes[0] * 1.04


@pytest.mark.parametrize(("policy", "count"), [("paceline", 8_000), ("mlcc", 1_000)])
async def test_what_switches_might_send(policy: str, count: int) -> None:
    switch = Switch(SwitchConfig("edge0", "127.0.0.1:0", TREE, LONG_SLOTS, policy, parents={"agg": "127.0.0.1:1"}))
    streams, draws = Streams(switch), random.Random(2)
    slot = switch.slots.index(switch.clock.now_ns())
    for name in ("tor0", "tor1", "agg"):
        switch.neighbour_connected(name)
    far = flow("good", "h0", "h4")
    good = message_to_envelope("tor0", "edge0", Report("tor0", 1, slot, (claim(TREE, far, *[5e8] * 10),)))
    switch.take_envelope("tor0", good)
    whole = [frame_of(envelope) for envelope in valid_envelopes(slot)]
    sizes = []
    for _ in range(4):
        for number, data in enumerate(messages(draws, count, whole, lambda draws: envelopes_of(draws, slot))):
            neighbour = draws.choice(("tor1", "tor1", "agg"))
            try:
                streams.take_envelopes(neighbour, parse(data, pb.Frame).envelope)
            except BadMessage as error:
                streams.handshake.count_refusal(error, neighbour)
            if not number % 500:
                await asyncio.sleep(0)
                switch.take_envelope("tor0", good)
                for outbox in switch.neighbours.values():
                    outbox._items.clear()
        sizes.append(held(switch))
    switch.close()
    assert {"shape", "flow", "numbers", "identity"} <= switch.refused.keys()
    assert switch.refused.total() >= 4 * count
    check_table(switch, far)
    assert sizes[-1] < sizes[0] * 1.02


def check_table(switch: Switch, good: FlowId) -> None:
    """Within capacity everywhere, and the plan of a host that behaved is in it."""
    table = switch.agent.table
    assert table.peak_ratio <= 1 + 1e-9
    slot = switch.slots.index(switch.clock.now_ns())
    for link in table.capacity_bps:
        loads = [table.load_bps(link, slot + k) for k in range(10)]
        assert all(0.0 <= load <= table.capacity_bps[link] * (1 + 1e-9) for load in loads)
    for link in table.renew(good, (), slot):
        own_bps = table.load_bps(link, slot) - table.load_bps(link, slot, without=good)
        assert own_bps == pytest.approx(5e8)
    arbitration = switch.agent.arbitration
    assert arbitration is None or arbitration.peak_ratio <= 1 + 1e-9


def valid_envelopes(slot: int) -> list[pb.Envelope]:
    own = claim(TREE, flow("own", "h2", "h4"), 1e8)
    grant = Grant(own.flow, True, 0.0, 0.0, (1e9,) * 10, (0.0,) * 10, 5, 0.0, 0.0)
    return [
        message_to_envelope("tor1", "edge0", Report("tor1", 1, slot, (own,))),
        message_to_envelope("tor1", "edge0", EscalatedClaims("tor1", (own,), (flow("gone", "h2", "h5"),))),
        message_to_envelope("agg", "edge0", ShareUpdate("agg", (Share(own.flow, 1e8, 1e9),))),
        message_to_envelope("agg", "tor1", Feedback("agg", 1, slot, (grant,))),
        message_to_envelope("tor1", "agg", Report("tor1", 1, slot, (own,))),
        pb.Envelope(source="agg", to="edge0", unreachable=True),
    ]


def frame_of(*envelopes: pb.Envelope) -> bytes:
    return pb.Frame(sent_ns=1, envelope=envelopes).SerializeToString()


def envelopes_of(draws: random.Random, slot: int) -> bytes:
    """A frame with a nonsensical and a valid envelope."""
    nonsense = pb.HostMessage.FromString(host_message(draws, slot)).report
    names = ("tor0", "tor1", "edge0", "agg", "edge1", "", "x")
    envelope = pb.Envelope(source=draws.choice(names), to=draws.choice(names))
    match draws.randrange(4):
        case 0:
            envelope.report.CopyFrom(nonsense)
        case 1:
            escalated = pb.EscalatedClaims(sender="tor1", claims=nonsense.claims, withdrawn=nonsense.withdrawn)
            envelope.escalated_claims.CopyFrom(escalated)
        case 2:
            rates = [draws.choice(NONSENSE) for _ in range(3)]
            shares = pb.ShareUpdate(sender="agg", flow=nonsense.withdrawn, share_bps=rates, ceiling_bps=rates)
            envelope.share_update.CopyFrom(shares)
        case 3:
            loads = [draws.choice(NONSENSE)] * 10
            envelope.feedback.CopyFrom(pb.Feedback(sender="agg", flow=nonsense.withdrawn, load=loads))
    return frame_of(envelope, draws.choice(valid_envelopes(slot)))


async def test_over_real_streams(fabric) -> None:
    net: Fabric = await fabric(STAR, policy="paceline")
    switch = net.switch("sw")
    h0 = await net.joined("h0", fresh=True)
    whole = valid_messages(net.slot("sw"))

    async def throw(seed: int) -> None:
        draws = random.Random(seed)
        for data in messages(draws, 700, whole, lambda draws: host_message(draws, net.slot("sw"))):
            bad = net.host(f"h{1 + seed}")
            net.hosts.remove(bad)
            await bad.hello()
            await bad.say(data)
            await bad.call.done_writing()
            assert (await bad.refusal()).split()[0] in (
                "OK",
                "INVALID_ARGUMENT",
                "PERMISSION_DENIED",
                "FAILED_PRECONDITION",
                "RESOURCE_EXHAUSTED",
            )

    throwing = [asyncio.create_task(throw(seed)) for seed in range(3)]
    while not all(task.done() for task in throwing):
        assert (await h0.ask(claim(STAR, GOOD, *[5e8] * 10))).grants[0].accepted
        await asyncio.sleep(0.05)
    await asyncio.gather(*throwing)
    await until(lambda: list(switch.hosts) == ["h0"])
    assert switch.refused.total() > 1000
    await h0.ask(claim(STAR, GOOD, *[5e8] * 10))
    check_table(switch, GOOD)
