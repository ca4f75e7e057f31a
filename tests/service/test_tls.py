"""Real handshakes on loopback: which peers get in, and under which name."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from paceline.flowcore.model.fields import InputError, Value
from paceline.service.tls import TlsFiles, expecting, peer_names, plaintext_allowed, tls_files

METHOD = "/test.Names/Names"


async def names_of_peer(_request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    """Answers with the names in the caller's certificate."""
    return ",".join(sorted(peer_names(context.auth_context()))).encode()


@asynccontextmanager
async def server(credentials: grpc.ServerCredentials | None) -> AsyncIterator[str]:
    handlers = {"Names": grpc.unary_unary_rpc_method_handler(names_of_peer)}
    names = grpc.aio.server()
    names.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Names", handlers),))
    wanted = "127.0.0.1:0"
    port = names.add_secure_port(wanted, credentials) if credentials else names.add_insecure_port(wanted)
    await names.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await names.stop(None)


async def ask(channel: grpc.aio.Channel) -> set[str]:
    async with channel:
        answer: bytes = await channel.unary_unary(METHOD)(b"", timeout=20)
        return set(answer.decode().split(",")) - {""}


async def refusal(channel: grpc.aio.Channel) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await ask(channel)
    return refused.value.code()


async def test_a_host_is_known_by_its_certificate(certificates) -> None:
    switch, host = certificates.of("sw"), certificates.of("h0", "10.0.0.7", "h0.example.org")
    async with server(switch.server_credentials()) as address:
        channel = grpc.aio.secure_channel(address, host.channel_credentials(), options=expecting("sw"))
        assert await ask(channel) == {"h0", "h0.example.org"}


@pytest.mark.parametrize(
    ("sans", "names"),
    [
        ([], set()),
        ([x509.DNSName("h1")], {"h1"}),
        ([x509.UniformResourceIdentifier("h0"), x509.RFC822Name("h0"), x509.IPAddress(ip_address("10.0.0.7"))], set()),
    ],
    ids=["none", "another", "other kinds"],
)
async def test_only_its_dns_names_say_which_host_it_is(
    certificates, tmp_path: Path, sans: list[x509.GeneralName], names: set[str]
) -> None:
    """All of them have the common name h0."""
    switch = certificates.of("sw")
    ca = x509.load_pem_x509_certificate(switch.ca.read_bytes())
    ca_key = load_pem_private_key((certificates.directory / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder(subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "h0")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ca.not_valid_before_utc)
        .not_valid_after(ca.not_valid_after_utc)
    )
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificate = builder.sign(ca_key, SHA256()).public_bytes(Encoding.PEM)
    credentials = grpc.ssl_channel_credentials(switch.ca.read_bytes(), pem, certificate)
    async with server(switch.server_credentials()) as address:
        assert await ask(grpc.aio.secure_channel(address, credentials, options=expecting("sw"))) == names


async def test_the_address_in_the_certificate_will_do_as_well(certificates) -> None:
    switch = certificates.of("tor0", "127.0.0.1")
    async with server(switch.server_credentials()) as address:
        credentials = certificates.of("h0").channel_credentials()
        assert "h0" in await ask(grpc.aio.secure_channel(address, credentials))


async def test_strangers_do_not_get_in(certificates, other_certificates) -> None:
    switch = certificates.of("sw")
    ca = switch.ca.read_bytes()
    stranger = replace(other_certificates.of("h0"), ca=switch.ca)  # trusts us; we do not trust it
    async with server(switch.server_credentials()) as address:
        nameless = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca), options=expecting("sw"))
        foreign = grpc.aio.secure_channel(address, stranger.channel_credentials(), options=expecting("sw"))
        for channel in (nameless, foreign, grpc.aio.insecure_channel(address)):
            assert await refusal(channel) is grpc.StatusCode.UNAVAILABLE
        known = certificates.of("h0").channel_credentials()  # and others are still served
        assert "h0" in await ask(grpc.aio.secure_channel(address, known, options=expecting("sw")))


async def test_a_host_does_not_talk_to_a_false_switch(certificates, other_certificates) -> None:
    host = certificates.of("h0").channel_credentials()
    for false in (certificates.of("h1"), other_certificates.of("sw")):
        async with server(false.server_credentials()) as address:
            channel = grpc.aio.secure_channel(address, host, options=expecting("sw"))
            assert await refusal(channel) is grpc.StatusCode.UNAVAILABLE


def test_a_stranger_cannot_fill_the_log(certificates) -> None:
    """In a process of its own: what gRPC's C core writes there is settled when it is imported."""
    program = """
import asyncio, sys
from pathlib import Path
from paceline.service.tls import TlsFiles  # before grpc, as the daemons do
import grpc

async def main(files):
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", files.server_credentials())
    await server.start()
    nameless = grpc.ssl_channel_credentials(files.ca.read_bytes())
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", nameless) as channel:
        try:
            await channel.unary_unary("/a/b")(b"", timeout=20)
        except grpc.aio.AioRpcError as error:
            print(error.code().name)
    await server.stop(None)

asyncio.run(main(TlsFiles(*map(Path, sys.argv[1:]))))
"""
    files = certificates.of("sw-local", "127.0.0.1")
    command = [sys.executable, "-c", program, files.ca, files.certificate, files.key]
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.stdout, done.stderr) == ("UNAVAILABLE\n", "")


async def test_plaintext_has_no_names() -> None:
    async with server(None) as address:
        assert await ask(grpc.aio.insecure_channel(address)) == set()


def test_names_that_would_break_a_line_are_no_names() -> None:
    context = {"peer_dns": [b"h0", b"a\nb", b"\x1b[31m", b""]}
    assert peer_names(context) == {"h0"}


@pytest.mark.parametrize(
    ("address", "flag", "allowed"),
    [
        ("127.0.0.1:7400", False, True),
        ("unix:/run/paceline/switchd.sock", False, True),
        ("10.0.0.1:7400", False, False),
        ("0.0.0.0:7400", False, False),
        ("10.0.0.1:7400", True, True),
    ],
)
def test_where_plaintext_is_allowed(address: str, flag: bool, allowed: bool) -> None:
    assert plaintext_allowed(address, flag) is allowed


# ---- Files that will not do ----


@pytest.fixture
def own(certificates, tmp_path: Path) -> TlsFiles:
    """A copy to spoil."""
    files = certificates.of("h0")
    copy = TlsFiles(*(tmp_path / path.name for path in (files.ca, files.certificate, files.key)))
    for part in ("ca", "certificate", "key"):
        getattr(copy, part).write_bytes(getattr(files, part).read_bytes())
        getattr(copy, part).chmod(0o600)
    return copy


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_a_key_for_all_to_see_is_refused(own: TlsFiles, mode: int) -> None:
    own.key.chmod(mode)
    with pytest.raises(InputError, match=rf"h0.key: permissions: found {mode:04o}, expected .*chmod 600"):
        own.server_credentials()


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])  # a group of its own may read it
def test_modes_that_will_do(own: TlsFiles, mode: int) -> None:
    own.key.chmod(mode)
    own.channel_credentials()


def test_a_key_of_another_certificate_is_refused(own: TlsFiles, certificates) -> None:
    own.key.write_bytes(certificates.of("h1").key.read_bytes())
    with pytest.raises(InputError, match=r"h0.crt: content: found key values mismatch"):
        own.server_credentials()


@pytest.mark.parametrize("spoilt", ["ca", "certificate", "key"])
def test_rubbish_is_refused_before_the_first_handshake(own: TlsFiles, spoilt: str) -> None:
    getattr(own, spoilt).write_bytes(b"\x00rubbish")
    with pytest.raises(InputError, match=r"content: found .*, expected .* in PEM"):
        own.channel_credentials()


@pytest.mark.parametrize("missing", ["ca", "certificate", "key"])
def test_a_missing_file_is_named(own: TlsFiles, missing: str) -> None:
    getattr(own, missing).unlink()
    with pytest.raises(FileNotFoundError) as failure:
        own.channel_credentials()
    assert failure.value.filename is not None
    assert str(getattr(own, missing)) == str(failure.value.filename)


def test_the_table_of_a_configuration() -> None:
    table = {"ca": "ca.crt", "certificate": "h0.crt", "key": "h0.key"}
    assert tls_files(Value("hostd.toml", "tls", table)) == TlsFiles(Path("ca.crt"), Path("h0.crt"), Path("h0.key"))
    with pytest.raises(InputError, match=r"hostd.toml: tls.key: found nothing, expected the path of a PEM file"):
        tls_files(Value("hostd.toml", "tls", {"ca": "ca.crt", "certificate": "h0.crt"}))
