"""How much a peer may send in a slot: over streams, calls and frames together."""

import asyncio
from itertools import count

import grpc
import pytest

from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, path
from paceline.wire.codec import REPORT, BadMessage, message_to_envelope
from switchd import rate_limit, streams
from switchd.rate_limit import BYTES_PER_SLOT, MESSAGES_PER_SLOT, TIMES_PER_FLOW, PeerRateLimit
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow

SLOTS = SlotClock(1000, 10)
STAR, TREE = star(3, 1.0), tree(2, 2, 2, (1.0, 1.5, 2.0))
FLOWS = 4
LIMIT = FLOWS * TIMES_PER_FLOW
LONG_SLOTS = SlotsSpec(3_600_000.0, 10)  # a slow machine must be able to flood, too


def fits(limit: PeerRateLimit, peer: str, now_ns: int, flows: int, size_bytes: int, hosts: int = 1) -> bool:
    try:
        limit.count(peer, now_ns, flows, size_bytes, hosts)
    except BadMessage as error:
        assert error.reason == "flood"
        return False
    return True


@pytest.mark.parametrize(
    ("flows", "size_bytes", "hosts", "most"),
    [
        (0, 10, 1, MESSAGES_PER_SLOT),
        (1, 10, 1, LIMIT),
        (FLOWS, 10, 1, TIMES_PER_FLOW),
        (FLOWS, 10, 3, 3 * TIMES_PER_FLOW),
        (LIMIT + 1, 10, 1, 0),
        (0, BYTES_PER_SLOT // 2, 1, 2),
        (0, BYTES_PER_SLOT // 2, 5, 10),
        (0, BYTES_PER_SLOT // 2, 0, 2),
    ],
)
def test_a_slot_has_room_for_so_many(flows: int, size_bytes: int, hosts: int, most: int) -> None:
    limit = PeerRateLimit(SLOTS, FLOWS)
    said = [fits(limit, "h0", 5000 + n % 1000, flows, size_bytes, hosts) for n in range(most + 3)]
    assert said == [True] * most + [False] * 3
    assert fits(limit, "h1", 5999, 1, 1)  # other hosts do not notice
    assert fits(limit, "h0", 6000, 1, 1)  # the next slot


async def test_large_messages_are_few(fabric) -> None:
    net: Fabric = await fabric(STAR, slots=LONG_SLOTS, max_flows_per_host=FLOWS)
    bad = await net.joined("h1")
    claims = [claim(STAR, flow(f"job{n}", "h1", "h2")) for n in range(FLOWS)]
    with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError)):
        for _ in range(3 * TIMES_PER_FLOW):
            await bad.ask(*claims)
    assert TIMES_PER_FLOW <= len(bad.feedbacks) <= 2 * TIMES_PER_FLOW
    assert (await bad.refusal()).startswith((f"RESOURCE_EXHAUSTED flood: more than {LIMIT} flows", "INTERNAL"))
    again = await net.joined("h1")
    await again.send(*claims)
    assert "flood" in await again.refusal()  # another stream is not another slot
    assert (await (await net.joined("h0")).ask(claim(STAR, flow("good", "h0", "h2")))).grants[0].accepted


async def test_calls_count_as_well(fabric) -> None:
    net: Fabric = await fabric(STAR, slots=LONG_SLOTS, max_flows_per_host=FLOWS)
    fetch, numbers = net.channel("sw").unary_unary(path("FetchFeedback")), count(1)

    async def ask() -> None:
        report = Report("h1", next(numbers), net.slot("sw"), (claim(STAR, flow("a", "h1", "h2")),))
        message = pb.HostMessage(report=REPORT.to_wire(report)).SerializeToString()
        await fetch(message, timeout=PATIENCE_S, wait_for_ready=True)

    with pytest.raises(grpc.aio.AioRpcError, match=f"flood: more than {LIMIT} flows") as refused:
        for _ in range(3 * LIMIT):
            await ask()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert next(numbers) > LIMIT


@pytest.mark.parametrize("flows", [0, 1])
async def test_frames_count_as_well(fabric, monkeypatch, flows: int) -> None:
    """A child may send as much as its hosts together: two of them here."""
    monkeypatch.setattr(rate_limit, "MESSAGES_PER_SLOT", 5 * LIMIT)
    net: Fabric = await fabric(TREE, slots=LONG_SLOTS, max_flows_per_host=FLOWS)
    await net.stop("tor1")
    call = net.channel("edge0", fresh=True).stream_stream(path("Federate"))(wait_for_ready=True, timeout=PATIENCE_S)
    await call.write(pb.Frame(hello=pb.Hello(name="tor1", protocol=PROTOCOL)).SerializeToString())
    await call.read()
    report = Report("tor1", 1, net.slot("edge0"), (claim(TREE, flow("a", "h2", "h0")),) * flows)
    frame = pb.Frame(envelope=[message_to_envelope("tor1", "edge0", report)]).SerializeToString()
    for _ in range(5 * LIMIT + 1 if not flows else 2 * LIMIT + 1):
        await call.write(frame)
    with pytest.raises(grpc.aio.AioRpcError, match="flood: more than") as refused:
        while await call.read() is not grpc.aio.EOF:
            pass
    assert (f"{2 * LIMIT} flows" if flows else f"{5 * LIMIT} messages") in refused.value.details()
    assert net.switch("edge0").refused["flood"] == 1


# ---- Watching ----


async def test_few_may_watch_from_one_address_and_they_see_the_same(fabric, monkeypatch) -> None:
    net: Fabric = await fabric(STAR)
    made: list[int] = []
    snapshot = net.switch("sw").snapshot

    def counted(links: tuple[str, ...], host_states: bool = False) -> pb.TableSnapshot:
        made.append(snapshot(links).slot)
        return snapshot(links)

    monkeypatch.setattr(net.switch("sw"), "snapshot", counted)

    def watcher() -> grpc.aio.UnaryStreamCall:
        return net.channel("sw").unary_stream(path("Watch"))(b"", timeout=PATIENCE_S, wait_for_ready=True)

    watching = [watcher() for _ in range(streams.WATCHERS_PER_ADDRESS)]
    for _ in range(3):
        await asyncio.gather(*(one.read() for one in watching))
    assert len(made) <= len(set(made)) + 1  # a slot may end between looking and making
    with pytest.raises(grpc.aio.AioRpcError, match="more than 4 watchers from one address") as refused:
        await watcher().read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await net.joined("h0")  # hosts do not suffer for it
    for one in watching:
        one.cancel()
    async with asyncio.timeout(PATIENCE_S):  # until the switch has noticed
        while True:
            try:
                await watcher().read()
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)
