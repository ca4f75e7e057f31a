"""Certificates that peers would refuse are refused at the start, each with a line that says why."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from paceline.commands import authority
from paceline.flowcore.model.fields import InputError
from paceline.service.handshakes.certificates import inspect, require_valid
from paceline.service.handshakes.tls_failure import why_handshake_fails
from paceline.service.tls import TlsFiles

NOW = authority.utc_now()
Make = Callable[..., TlsFiles]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Files of a name, from one of several CAs of which the first is `ours`; `days_ago` it was made for two days."""

    def files(name: str, ca: str = "ours", days_ago: int = 0) -> TlsFiles:
        directory = tmp_path / ca
        if not directory.exists():
            authority.init(directory, days=100, force=False, now=NOW - timedelta(days=50))
        authority.issue(directory, name, (), days=2, force=True, now=NOW - timedelta(days=days_ago))
        return TlsFiles(directory / "ca.crt", directory / f"{name}.crt", directory / f"{name}.key")

    return files


def refusal(files: TlsFiles, name: str, after_days: float = 0.0) -> str:
    with pytest.raises(InputError) as refused:
        require_valid(files, name, NOW.timestamp() + 86_400 * after_days)
    return str(refused.value)


def test_a_good_one_and_when_it_expires(make: Make) -> None:
    found = require_valid(make("h0"), "h0")
    assert found.names == ("h0",)
    assert found.expires_s == (NOW + timedelta(days=2)).timestamp()
    assert found.ca_expires_s == (NOW + timedelta(days=50)).timestamp()


def test_each_is_refused_with_its_reason(make: Make) -> None:
    good = make("h0")
    assert "h0.crt: names: found h0, expected h1 among its DNS names" in refusal(good, "h1")
    assert "h0.crt: validity: found expired on 2" in refusal(good, "h0", after_days=3)
    assert "is this machine's clock right?" in refusal(good, "h0", after_days=-3)
    assert "ca.crt: validity: found expired on" in refusal(good, "h0", after_days=60)
    foreign = replace(make("h0"), ca=make("h0", "theirs").ca)
    assert f"expected a certificate that {foreign.ca} signed" in refusal(foreign, "h0")
    with pytest.raises(FileNotFoundError):
        require_valid(replace(good, ca=Path("/no/ca.crt")), "h0")
    assert inspect(make("old", days_ago=9)).expires_s < NOW.timestamp(), "its dates are known all the same"


async def test_why_a_handshake_fails(make: Make) -> None:
    import asyncio

    server, plain = grpc.aio.server(), grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", make("sw").server_credentials())
    open_port = plain.add_insecure_port("127.0.0.1:0")
    await server.start()
    await plain.start()

    async def why(files: TlsFiles | None, name: str | None = "sw", port: int = port) -> str | None:
        return await asyncio.to_thread(why_handshake_fails, files, "h0", name, f"127.0.0.1:{port}")

    stranger = replace(make("h0", "theirs"), ca=make("h0").ca)
    assert await why(make("h0")) is None
    assert "sw refuses this end's certificate" in str(await why(stranger)) and "issuer" in str(await why(stranger))
    assert "expired on" in str(await why(make("h0", days_ago=9)))
    assert "the certificate of sw is refused here: unable to get local issuer" in str(await why(make("h0", "theirs")))
    assert "the certificate of tor1 is refused here: Hostname mismatch" in str(await why(make("h0"), "tor1"))
    assert await why(None) == "sw speaks with TLS only"
    assert await why(make("h0"), port=open_port) == "sw speaks without TLS"
    await server.stop(0)
    await plain.stop(0)
    assert await why(make("h0")) is None, "no server is no failed handshake"
