"""With mutual TLS a peer speaks for the name in its certificate and no other."""

import grpc
import pytest

from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.topology import star, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, open_channel, path
from paceline.wire.codec import REPORT
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow

STAR = star(2, 1.0)
TREE = tree(1, 2, 2, (1.0, 1.0, 1.0))


async def refusal(calling) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calling
    return f"{refused.value.code().name} {refused.value.details()}"


async def test_a_host_may_only_speak_for_itself(fabric, certificates) -> None:
    net: Fabric = await fabric(STAR, certificates=certificates)
    h0 = await net.joined("h0", certificate="h0")
    assert (await h0.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))).grants[0].accepted
    impostor = net.host("h0", certificate="h1")
    assert await refusal(impostor.hello()) == "PERMISSION_DENIED identity: the certificate is not for h0"
    report = REPORT.to_wire(Report("h0", 1, net.slot("sw"), (claim(STAR, flow("a", "h0", "h1")),)))
    call = net.channel("sw", "h1").unary_unary(path("FetchFeedback"))
    message = pb.HostMessage(report=report).SerializeToString()
    assert (await refusal(call(message, timeout=PATIENCE_S))).startswith("PERMISSION_DENIED identity")
    assert net.switch("sw").refused["identity"] == 2
    assert (await h0.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))).grants[0].accepted  # h0 noticed nothing


async def test_a_peer_without_a_certificate_is_refused(fabric, certificates) -> None:
    net: Fabric = await fabric(STAR, certificates=certificates)
    authority = grpc.ssl_channel_credentials(certificates("sw").ca.read_bytes())
    for credentials in (None, authority):
        async with open_channel(net.address("sw"), credentials) as channel:
            call = channel.unary_unary(path("FetchFeedback"))(b"", timeout=PATIENCE_S)
            assert (await refusal(call)).startswith("UNAVAILABLE")


async def test_switches_know_each_other_by_certificate(fabric, certificates) -> None:
    net: Fabric = await fabric(TREE, certificates=certificates)
    h0 = await net.joined("h0", certificate="h0")
    answer = await h0.ask(claim(TREE, flow("far", "h0", "h3"), 1e8))
    assert (answer.grants[0].accepted, answer.silent) == (True, ())
    for certificate, said in (("tor1", "the certificate is not for tor0"), ("h0", "the certificate is not for tor0")):
        call = net.channel("edge0", certificate).stream_stream(path("Federate"))(timeout=PATIENCE_S)
        await call.write(pb.Frame(hello=pb.Hello(name="tor0", protocol=PROTOCOL)).SerializeToString())
        assert said in await refusal(call.read())
