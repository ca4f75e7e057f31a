"""A peer that breaks a rule gets a status and a reason and is counted; other peers do not notice."""

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.topology import star, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES, PROTOCOL, path
from paceline.wire.codec import REPORT, message_to_envelope
from switchd import handshake, rate_limit, switch
from switchd.config import DEFAULT_MAX_FLOWS
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow, until

pytestmark = pytest.mark.slow

STAR = star(4, 1.0)
TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
GOOD, BAD = flow("good", "h0", "h1"), flow("bad", "h1", "h2")


@pytest.fixture
async def net(fabric) -> AsyncIterator[Fabric]:
    """A star where h0 has a plan and must go on undisturbed whatever h1 does."""
    net: Fabric = await fabric(STAR)
    h0 = await net.joined("h0", fresh=True)
    assert (await h0.ask(claim(STAR, GOOD, *[5e8] * 10))).grants[0].accepted
    yield net
    before = len(h0.feedbacks)
    answer = await h0.ask(claim(STAR, GOOD, *[5e8] * 10))
    assert answer.grants[0].accepted
    assert len(h0.feedbacks) == before + 1
    assert h0.ended is None
    assert net.switch("sw").agent.table.peak_ratio <= 1 + 1e-9


def report(net: Fabric, *flows: str, sender: str = "h1", others_bps: float = 0.0, **columns: list[float]) -> pb.Report:
    """A report of h1 that is right but for what is given."""
    names = list(flows) or [str(BAD)]
    right = [claim(STAR, flow(f"job{n}", "h1", "h2"), *[1e8] * 10) for n in range(len(names))]
    wire = REPORT.to_wire(Report(sender, 1, net.slot("sw"), tuple(right)))
    wire.claims.flow[:] = names
    for name, values in columns.items():
        getattr(wire.claims, name)[:] = values
    wire.others_bps = others_bps
    return wire


HELLOS = {
    "older protocol": ({"protocol": 0}, "FAILED_PRECONDITION protocol: h1 speaks version 0, this switch 1"),
    "newer protocol": ({"protocol": 2}, "FAILED_PRECONDITION protocol: h1 speaks version 2, this switch 1"),
    "another topology": ({"topology": "abcd"}, "FAILED_PRECONDITION topology"),
    "another horizon": ({"horizon": 9}, "FAILED_PRECONDITION horizon: h1 plans 9 slots ahead, this switch 10"),
    "another slot": ({"slot_length_ns": 1}, "FAILED_PRECONDITION slot_length: h1 has slots of 1e-06 ms, this"),
    "another policy": ({"policy": "fifo"}, "FAILED_PRECONDITION policy: h1 runs 'fifo', this switch 'mlcc'"),
    "unknown host": ({"name": "h9"}, "PERMISSION_DENIED identity: 'h9' is not a host of sw"),
    "a switch": ({"name": "sw"}, "PERMISSION_DENIED identity"),
    "no name": ({"name": ""}, "PERMISSION_DENIED identity"),
    "escapes": ({"name": "\x1b[31m" * 100}, "PERMISSION_DENIED identity"),
}


@pytest.mark.parametrize("which", HELLOS)
async def test_greetings(net: Fabric, which: str) -> None:
    fields, said = HELLOS[which]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await net.host("h1").hello(**fields)
    answer = f"{refused.value.code().name} {refused.value.details()}"
    assert answer.startswith(said)
    assert answer.isprintable()
    assert net.switch("sw").refused[said.split()[1].rstrip(":")] == 1
    assert list(net.switch("sw").hosts) == ["h0"]


REPORTS: dict[str, tuple[Callable[[Fabric], pb.Report], str]] = {
    "no flow": (lambda net: report(net, "bad"), "INVALID_ARGUMENT flow"),
    "twice the same": (lambda net: report(net, str(BAD), str(BAD)), "INVALID_ARGUMENT flow"),
    "another host's flow": (lambda net: report(net, str(GOOD)), "PERMISSION_DENIED identity: h1 speaks for"),
    "another host's name": (lambda net: report(net, sender="h0"), "PERMISSION_DENIED identity"),
    "longer horizon": (
        lambda net: report(net, plan_bps=[1.0] * 11, plan_slots=[11]),
        "FAILED_PRECONDITION horizon: a plan of 11 slots, expected 10",
    ),
    "columns that differ": (lambda net: report(net, urgency=[]), "INVALID_ARGUMENT shape"),
    "cross traffic without sense": (lambda net: report(net, others_bps=math.nan), "INVALID_ARGUMENT numbers"),
    "counts that lie": (lambda net: report(net, plan_slots=[2**32 - 1]), "INVALID_ARGUMENT shape"),
}


@pytest.mark.parametrize("which", REPORTS)
async def test_reports(net: Fabric, which: str) -> None:
    make, said = REPORTS[which]
    bad = await net.joined("h1")
    await bad.say(pb.HostMessage(report=make(net)))
    assert (await bad.refusal()).startswith(said)
    assert net.switch("sw").refused[said.split()[1].rstrip(":")] == 1
    assert {one.source for one in net.switch("sw").agent.table._heard} <= {"h0"}
    await until(lambda: list(net.switch("sw").hosts) == ["h0"])


@pytest.mark.parametrize("slots", [-101, -(2**40), 11, 2**40])
async def test_reports_about_another_time(net: Fabric, slots: int) -> None:
    bad = await net.joined("h1")
    late = report(net)
    late.first_slot += slots
    await bad.say(pb.HostMessage(report=late))
    assert (await bad.refusal()).startswith("INVALID_ARGUMENT slot: a report about slot")


@pytest.mark.parametrize("slots", [-11, -99])
async def test_a_late_report_is_answered_with_the_time_alone(net: Fabric, slots: int) -> None:
    host = await net.joined("h1")
    late = report(net)
    late.first_slot += slots
    await host.say(pb.HostMessage(report=late))
    answer = await host.ask(claim(STAR, BAD))
    assert (answer.answers, host.ended) == (1, None)
    assert BAD in net.switch("sw").agent.table
    assert net.switch("sw").refused == {"late": 1}


async def test_a_plan_that_does_not_fit_is_no_offence(net: Fabric) -> None:
    h1 = await net.joined("h1")
    answer = await h1.ask(claim(STAR, BAD, *[1e17] * 10))
    assert not answer.grants[0].accepted
    assert not net.switch("sw").refused


@pytest.mark.parametrize(
    "message",
    [b"", b"\xff" * 10, b"hello", pb.HostMessage(hello=pb.Hello(name="h1", protocol=1)).SerializeToString()],
    ids=["nothing", "bytes", "text", "a second hello"],
)
async def test_no_reports(net: Fabric, message: bytes) -> None:
    bad = await net.joined("h1")
    await bad.say(message)
    assert (await bad.refusal()).startswith("INVALID_ARGUMENT shape")


async def test_a_stream_that_begins_with_something_else(net: Fabric) -> None:
    call = net.channel("sw").stream_stream(path("Negotiate"))(timeout=PATIENCE_S)
    await call.write(pb.HostMessage(report=report(net)).SerializeToString())
    with pytest.raises(grpc.aio.AioRpcError, match="a stream begins with Hello"):
        await call.read()


@pytest.mark.parametrize("method", ["Negotiate", "Federate"])
async def test_silence(net: Fabric, monkeypatch, method: str) -> None:
    monkeypatch.setattr(handshake, "HELLO_TIMEOUT_S", 0.05)
    call = net.channel("sw").stream_stream(path(method))(timeout=PATIENCE_S)
    with pytest.raises(grpc.aio.AioRpcError, match="no Hello") as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert net.switch("sw").refused == {"silence": 1}


# ---- Too much ----


@pytest.mark.parametrize("size_bytes", [MAX_MESSAGE_BYTES + 1, 8 * MAX_MESSAGE_BYTES])
async def test_an_oversized_message(net: Fabric, size_bytes: int) -> None:
    channel = grpc.aio.insecure_channel(net.address("sw"))  # with no limit of its own on what it sends
    call = channel.stream_stream(path("Negotiate"))()
    await call.write(pb.HostMessage(hello=pb.Hello(name="h1", protocol=PROTOCOL)).SerializeToString())
    await call.read()
    await call.write(bytes(size_bytes))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    if size_bytes < 4 * MAX_MESSAGE_BYTES:  # beyond, gRPC refuses it without reading and does not tell us
        assert net.switch("sw").refused == {"size": 1}
    await until(lambda: list(net.switch("sw").hosts) == ["h0"])
    await channel.close()


async def test_messages_without_end(net: Fabric, monkeypatch) -> None:
    monkeypatch.setattr(rate_limit, "MESSAGES_PER_SLOT", 20)  # a slow machine needs seconds to send more
    bad = await net.joined("h1")
    with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
        for _ in range(100_000):
            await bad.send(claim(STAR, BAD))
    # A client that is still writing when the status comes may lose it; the switch counts it in any case.
    assert (await bad.refusal()).startswith(("RESOURCE_EXHAUSTED flood: more than 20 messages", "INTERNAL"))
    assert net.switch("sw").refused["flood"] == 1


async def test_a_reader_that_does_not_read(net: Fabric, monkeypatch) -> None:
    """The answers back up: through the stream's window of 64 kB into the outbox, which is bounded."""
    monkeypatch.setattr(switch, "HOST_OUTBOX", 4)
    async with grpc.aio.insecure_channel(net.address("sw"), [("grpc.http2.bdp_probe", 0)]) as channel:
        call = channel.stream_stream(path("Negotiate"))()
        await call.write(pb.HostMessage(hello=pb.Hello(name="h1", protocol=PROTOCOL)).SerializeToString())
        claims = tuple(claim(STAR, flow(f"job{n}", "h1", "h2")) for n in range(100))

        async def talk() -> None:
            for number in range(2000):
                report = REPORT.to_wire(Report("h1", number, net.slot("sw"), claims))
                await call.write(pb.HostMessage(report=report).SerializeToString())
                await asyncio.sleep(0.01)

        talking = asyncio.create_task(talk())
        await until(lambda: net.switch("sw").refused["slow"] == 1)
        await until(lambda: list(net.switch("sw").hosts) == ["h0"])
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)


async def test_a_thousand_streams_from_one_address(net: Fabric) -> None:
    refused = net.switch("sw").refused
    most = handshake.SPARE_STREAMS + 2 * len(STAR.hosts)
    apart = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(net.address("sw"), apart) for _ in range(10)]
    calls = [channel.stream_stream(path("Negotiate"))() for channel in channels for _ in range(100)]
    await until(lambda: refused["streams"] >= 1000 - most)
    ended = [call for call in calls if call.done()]
    assert len(ended) <= 1000 - most + 1
    assert all([await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED for call in ended])
    for call in calls:
        call.cancel()
    for channel in channels:
        await channel.close()
    await net.joined("h2")  # there is room again


async def test_memory_of_a_host_that_comes_again_and_again(net: Fabric) -> None:
    """Streams come and go, each with new flows, within the limit and beyond it."""

    async def come(number: int) -> None:
        host = await net.joined("h1")
        net.hosts.remove(host)
        await host.send(*(claim(STAR, flow(f"job{number}-{n}", "h1", "h2"), *[1e6] * 10) for n in range(50)))
        await host.close()

    def held() -> int:
        gc.collect()
        sw = net.switch("sw")
        owners = [sw, sw.agent, sw.agent.table]
        owners += [part for part in vars(sw.agent).values() if "flowcore.switch" in type(part).__module__]
        parts = [part for owner in owners for part in vars(owner).values()]
        return sum(len(part) for part in parts if isinstance(part, dict | set | list))

    for number in range(15):
        await come(number)
    before = held()
    for number in range(15, 60):
        await come(number)
    assert held() <= before + 10
    assert len(net.switch("sw").agent._claims._volume_bytes) <= DEFAULT_MAX_FLOWS + 1


# ---- Switches ----


async def federate(net: Fabric, name: str, *envelopes: pb.Envelope, to: str = "edge0") -> grpc.aio.StreamStreamCall:
    call = net.channel(to, None, fresh=True).stream_stream(path("Federate"))(wait_for_ready=True)
    hello = pb.Hello(name=name, protocol=PROTOCOL)
    await call.write(pb.Frame(hello=hello).SerializeToString())
    await call.read()
    await call.write(pb.Frame(envelope=envelopes).SerializeToString())
    return call


async def test_messages_that_cannot_be_true(fabric) -> None:
    """tor1 is stopped and another process speaks as tor1: only what tor1 may send is taken, the rest counted."""
    net: Fabric = await fabric(TREE)
    await net.stop("tor1")
    h0 = await net.joined("h0")
    edge = net.switch("edge0")
    own, others = claim(TREE, flow("own", "h2", "h0"), 1e8), claim(TREE, flow("others", "h0", "h4"), 1e8)
    elsewhere = claim(TREE, flow("elsewhere", "h2", "h3"), 1e8)  # stays inside tor1

    def sent(source: str, sender: str, *claims) -> pb.Envelope:
        return message_to_envelope(source, "edge0", Report(sender, 1, net.slot("edge0"), claims))

    call = await federate(
        net,
        "tor1",
        sent("tor0", "tor0", others),  # for another switch
        sent("tor1", "tor0", others),  # under another name
        sent("tor1", "tor1", others),  # for another's host
        sent("agg", "agg"),  # from above
        sent("unknown", "unknown"),
        sent("tor1", "tor1", elsewhere),
        pb.Envelope(source="tor1", to="edge0"),
        sent("tor1", "tor1", own),
    )
    await until(lambda: own.flow in edge.agent.table)
    assert edge.refused == {"identity": 5, "flow": 1, "shape": 1}
    assert others.flow not in edge.agent.table
    assert (await h0.ask(claim(TREE, flow("far", "h0", "h4"), 1e8))).silent == ()
    call.cancel()


async def test_a_child_that_comes_again_is_not_slow(fabric) -> None:
    """It was restarted before the parent noticed: the new stream takes over from the old one."""
    net: Fabric = await fabric(TREE)
    await net.stop("tor1")
    old = await federate(net, "tor1")
    new = await federate(net, "tor1")
    with pytest.raises(grpc.aio.AioRpcError, match="another stream of this switch has taken over"):
        await asyncio.wait_for(old.read(), PATIENCE_S)
    assert net.switch("edge0").refused == {"busy": 1}
    assert "tor1" in net.switch("edge0").neighbours
    assert not new.done()
    new.cancel()


@pytest.mark.parametrize("name", ["tor2", "agg", "h0", "unknown"])
async def test_only_children_federate(fabric, name: str) -> None:
    net: Fabric = await fabric(TREE)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await federate(net, name)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "is not a child of edge0" in refused.value.details()


async def test_idle_streams_stay_open(fabric) -> None:
    """Longer than it takes a server to tire of pings."""
    net: Fabric = await fabric(TREE)
    h0 = await net.joined("h0")
    await asyncio.sleep(4.5)
    assert h0.ended is None
    assert (await h0.ask(claim(TREE, flow("far", "h0", "h7"), 1e8))).silent == ()
    assert not any(net.switch(name).agent.silent for name in TREE.switches)
