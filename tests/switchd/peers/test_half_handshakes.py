"""A connection that gets no further than half of its handshake is closed after a bounded time."""

import asyncio

import pytest

from paceline.flowcore.model.topology import star
from switchd import daemon
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow

pytestmark = pytest.mark.slow

STAR = star(2, 1.0)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # none; with it the handshake of HTTP/2 is over
TLS_RECORD = bytes((22, 3, 1, 2, 0))  # announces 512 bytes of a ClientHello


async def closed_after_s(address: str, first: bytes) -> float:
    """How long the switch keeps a connection on which nothing follows these bytes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    begun_s = asyncio.get_running_loop().time()
    try:
        writer.write(first)
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(4096):
                pass
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return asyncio.get_running_loop().time() - begun_s


async def test_a_half_handshake_is_given_up(fabric, certificates) -> None:
    plain: Fabric = await fabric(STAR)
    secure: Fabric = await fabric(STAR, certificates=certificates)
    halves = [(plain, b""), (plain, PREFACE[:9]), (plain, PREFACE), (secure, b""), (secure, TLS_RECORD)]
    took_s = await asyncio.gather(*(closed_after_s(net.address("sw"), first) for net, first in halves))
    assert max(took_s) < PATIENCE_S / 2
    h0 = await plain.joined("h0")
    assert (await h0.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))).grants[0].accepted


async def test_a_connection_without_a_stream_is_closed(fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    sooner = [(key, 300 if key == "grpc.max_connection_idle_ms" else value) for key, value in daemon.SERVER_OPTIONS]
    monkeypatch.setattr(daemon, "SERVER_OPTIONS", sooner)
    net: Fabric = await fabric(STAR)
    h0 = await net.joined("h0")
    assert await closed_after_s(net.address("sw"), PREFACE + SETTINGS) < PATIENCE_S / 2
    await asyncio.sleep(0.5)
    assert (await h0.ask(claim(STAR, flow("a", "h0", "h1"), 1e8))).grants[0].accepted  # a stream that is silent stays
