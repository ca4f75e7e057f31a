"""Everything but the stream: the paper's two calls, Watch, health, reflection, metrics."""

import asyncio
import urllib.request
from itertools import count

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from paceline.flowcore.messages.reports import Claim, Feedback, Report
from paceline.flowcore.model.topology import star, tree
from paceline.service.metrics import MetricsServer
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import SERVICE, path
from paceline.wire.codec import FEEDBACK, REPORT
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow, until

STAR = star(3, 1.0)
TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
A, C = flow("a", "h0", "h1"), flow("c", "h2", "h1")
numbers = count(1)


async def call(net: Fabric, method: str, host: str, *claims: Claim, number: int | None = None) -> Feedback:
    tor = net.topology.switch_of[host]
    report = Report(host, next(numbers) if number is None else number, net.slot(tor), claims)
    message = pb.HostMessage(sent_ns=5, report=REPORT.to_wire(report))
    data = await net.channel(tor).unary_unary(path(method))(
        message.SerializeToString(), timeout=PATIENCE_S, wait_for_ready=True
    )
    answer = pb.SwitchMessage.FromString(data)
    assert answer.clock.echo_ns == 5
    assert answer.clock.received_ns <= answer.clock.sent_ns
    feedback = FEEDBACK.from_wire(answer.feedback)
    assert feedback.answers == report.number
    return feedback


async def refusal(calling) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calling
    return f"{refused.value.code().name} {refused.value.details()}"


@pytest.mark.parametrize("topology", [STAR, TREE], ids=["star", "tree"])
async def test_fetch_and_update(fabric, topology) -> None:
    net: Fabric = await fabric(topology)
    last, before = topology.hosts[-1], topology.hosts[-2]
    near, far = flow("near", before, last), flow("far", "h0", last)
    [empty] = (await call(net, "FetchFeedback", "h0", claim(topology, far))).grants
    assert empty.available_bps[0] == 1e9
    [taken] = (await call(net, "UpdateSchedule", before, claim(topology, near, *[7e8] * 10))).grants
    assert taken.accepted
    [left] = (await call(net, "FetchFeedback", "h0", claim(topology, far))).grants
    assert left.available_bps[0] == pytest.approx(3e8)
    [refused] = (await call(net, "UpdateSchedule", "h0", claim(topology, far, *[5e8] * 3))).grants
    assert not refused.accepted
    assert refused.available_bps[0] == pytest.approx(3e8)
    [fits] = (await call(net, "UpdateSchedule", "h0", claim(topology, far, *left.available_bps))).grants
    assert fits.accepted


@pytest.mark.parametrize("topology", [STAR, TREE], ids=["star", "tree"])
async def test_a_refused_plan_is_counted_once(fabric, topology) -> None:
    """However often its host asks about the flow afterwards, and whatever else it is told meanwhile."""
    net: Fabric = await fabric(topology)
    tor = net.switch(topology.switch_of["h0"])
    far, other = flow("far", "h0", topology.hosts[-1]), flow("other", "h0", "h1")
    for plans in (1, 2):
        [refused] = (await call(net, "UpdateSchedule", "h0", claim(topology, far, *[2e9] * 10))).grants
        assert (refused.accepted, tor.plans_refused) == (False, plans)
        for _ in range(2):
            await call(net, "FetchFeedback", "h0", claim(topology, far))
        await call(net, "UpdateSchedule", "h0", claim(topology, far), claim(topology, other, 1e8))
        assert tor.plans_refused == plans
    assert tor.registry.get_sample_value("paceline_switch_refusals_total", {"reason": "capacity"}) == 2.0


async def test_calls_that_are_refused(fabric) -> None:
    net: Fabric = await fabric(STAR)
    asking, planning = claim(STAR, A), claim(STAR, A, 1e8)
    assert (await refusal(call(net, "FetchFeedback", "h0", planning))).startswith("INVALID_ARGUMENT shape: Fetch")
    assert (await refusal(call(net, "UpdateSchedule", "h0", asking))).startswith("INVALID_ARGUMENT shape: Update")
    assert (await refusal(call(net, "FetchFeedback", "h0"))).startswith("INVALID_ARGUMENT shape")
    assert (await refusal(call(net, "FetchFeedback", "h1", asking))).startswith("PERMISSION_DENIED identity")
    nonsense = net.channel("sw").unary_unary(path("FetchFeedback"))(b"\xff\xff", timeout=PATIENCE_S)
    assert (await refusal(nonsense)).startswith("INVALID_ARGUMENT shape")
    stranger = pb.HostMessage(report=pb.Report(sender="h9")).SerializeToString()
    unknown = net.channel("sw").unary_unary(path("UpdateSchedule"))(stranger, timeout=PATIENCE_S)
    assert (await refusal(unknown)).startswith("PERMISSION_DENIED identity: 'h9'")
    await net.joined("h0")
    assert (await refusal(call(net, "FetchFeedback", "h0", asking))).startswith("FAILED_PRECONDITION busy")
    assert sum(net.switch("sw").refused.values()) == 7
    assert not net.switch("sw").calls


async def test_a_call_that_a_dead_parent_holds_up_is_answered(fabric) -> None:
    net: Fabric = await fabric(TREE)
    await net.stop("agg")
    far = flow("far", "h0", "h7")
    answer = await call(net, "FetchFeedback", "h0", claim(TREE, far))
    assert "agg" in answer.silent


async def test_two_calls_with_one_number(fabric) -> None:
    net: Fabric = await fabric(TREE)
    far = claim(TREE, flow("far", "h0", "h7"))
    both = [call(net, "FetchFeedback", "h0", far, number=7) for _ in range(2)]
    done = await asyncio.gather(*both, return_exceptions=True)
    refused = [error for error in done if isinstance(error, grpc.aio.AioRpcError)]
    assert len(refused) <= 1  # the second may come after the first was answered
    assert all(error.code() is grpc.StatusCode.FAILED_PRECONDITION for error in refused)


# ---- Watching ----


async def snapshots(net: Fabric, switch: str, count: int, **request: object) -> list[pb.TableSnapshot]:
    watching = net.channel(switch).unary_stream(path("Watch"))(
        pb.WatchRequest(**request).SerializeToString(), timeout=PATIENCE_S, wait_for_ready=True
    )
    try:
        return [pb.TableSnapshot.FromString(await watching.read()) for _ in range(count)]
    finally:
        watching.cancel()


async def test_watch_shows_the_table(fabric) -> None:
    net: Fabric = await fabric(STAR)
    h0, h2 = await net.joined("h0"), await net.joined("h2")
    await h0.ask(claim(STAR, A, *[4e8] * 10))
    await h2.ask(claim(STAR, C, *[9e8] * 10))  # refused
    first, second = await snapshots(net, "sw", 2)
    assert first.slot < second.slot
    assert list(first.link) == list(STAR.links)
    load = dict(zip(first.link, first.load_bps[:: first.horizon], strict=True))
    assert (load["h0->sw"], load["sw->h1"], load["h2->sw"]) == (4e8, 4e8, 0.0)
    assert dict(zip(first.link, first.flows, strict=True))["sw->h1"] == 2
    assert list(first.host) == ["h0", "h2"]
    assert first.plans_refused == 1
    assert list(first.capacity_bps) == [1e9] * 6
    assert (first.name, first.horizon, first.slot_length_ns) == ("sw", 10, 60_000_000)


async def test_watch_one_link_seldom(fabric) -> None:
    net: Fabric = await fabric(TREE)
    await net.stop("agg")
    h0 = await net.joined("h0")
    await h0.ask(claim(TREE, flow("far", "h0", "h7")))
    first, second = await snapshots(net, "tor0", 2, every_slots=3, link=["tor0->edge0", "tor0->edge0"])
    assert list(first.link) == ["tor0->edge0"]
    assert second.slot - first.slot >= 2
    assert "agg" in first.silent
    watching = net.channel("tor0").unary_stream(path("Watch"))
    request = pb.WatchRequest(link=["sw->h1"]).SerializeToString()
    assert (await refusal(watching(request, timeout=PATIENCE_S).read())).startswith("INVALID_ARGUMENT link: no link")


# ---- What operators expect ----


async def test_health(fabric) -> None:
    net: Fabric = await fabric(STAR)
    stub = health_pb2_grpc.HealthStub(net.channel("sw"))
    for service in ("", SERVICE):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection(fabric) -> None:
    net: Fabric = await fabric(STAR)
    stub = reflection_pb2_grpc.ServerReflectionStub(net.channel("sw"))
    asking = stub.ServerReflectionInfo(timeout=PATIENCE_S)
    await asking.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = await asking.read()
    names = {service.name for service in listed.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    await asking.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE))
    described = await asking.read()
    assert described.file_descriptor_response.file_descriptor_proto
    asking.cancel()


PROMISED = [
    "paceline_switch_messages_total",
    'paceline_switch_refusals_total{reason="capacity"} 1.0',
    'paceline_switch_link_load_ratio{link="sw->h1"} 0.4',
    'paceline_switch_link_load_ratio{link="h0->sw"} 0.5',
    'paceline_switch_link_cross_traffic_ratio{link="h0->sw"} 0.1',
    "paceline_switch_answer_latency_seconds_bucket",
    "paceline_switch_silent_parents 0.0",
    "paceline_switch_shared_links 0.0",
    'paceline_switch_bad_peers_total{reason="shape"} 1.0',
    "paceline_switch_hosts 2.0",
]


async def test_metrics(fabric) -> None:
    net: Fabric = await fabric(STAR, metrics="127.0.0.1:0")
    h0, h2 = await net.joined("h0"), await net.joined("h2")
    await h0.ask(claim(STAR, A, *[4e8] * 10), others_bps=1e8)
    await h2.ask(claim(STAR, C, *[9e8] * 10))
    h1 = await net.joined("h1")
    await h1.say(b"\xff")
    await h1.refusal()
    await until(lambda: len(net.switch("sw").hosts) == 2)
    # The daemon's own endpoint has a port that only the kernel knows: read the same registry through another.
    with MetricsServer(net.switch("sw").registry, "127.0.0.1:0") as endpoint:
        address = f"http://127.0.0.1:{endpoint.port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(address, timeout=PATIENCE_S).read().decode())
    for line in PROMISED:
        assert line in text


async def test_silent_parents_are_counted(fabric) -> None:
    net: Fabric = await fabric(TREE)
    await net.stop("edge0")
    await until(lambda: net.switch("tor0").registry.get_sample_value("paceline_switch_silent_parents") == 1.0)
    await net.start("edge0")
    await until(lambda: net.switch("tor0").registry.get_sample_value("paceline_switch_silent_parents") == 0.0)


async def test_a_parent_that_listens_and_says_nothing_is_stale_too(fabric) -> None:
    """Its stream stays open; that it owes answers is what gives it away."""
    net: Fabric = await fabric(TREE)
    h0 = await net.joined("h0")
    net.switch("edge0").take_envelope = lambda *_: None
    far = claim(TREE, flow("far", "h0", "h2"), 1e8)
    async with asyncio.timeout(PATIENCE_S):
        while "edge0" not in net.switch("tor0").agent.silent:
            await h0.send(far)
            await asyncio.sleep(0.06)
    assert "edge0" in net.switch("tor0").neighbours
    assert net.switch("tor0").registry.get_sample_value("paceline_switch_silent_parents") == 1.0
    assert "edge0" in (await h0.ask(far)).silent
