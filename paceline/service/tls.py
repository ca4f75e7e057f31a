"""Mutual TLS: both ends show a certificate of one CA, and the DNS name in it is the host or switch that speaks.

Law: what crosses a network is encrypted and both ends are known, unless an operator configured plaintext. On loopback
and unix sockets plaintext is fine: a process that can listen there can do worse.
"""

import ssl
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from paceline.flowcore.model.fields import Field, InputError, Value, read_table
from paceline.service.address import stays_on_this_machine


def plaintext_allowed(address: str, flag: bool) -> bool:
    """Whether a connection to `address`, or a listener on it, may be without TLS; `flag`: the operator allows it."""
    return flag or stays_on_this_machine(address)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the CA whose certificates count, and the daemon's own certificate and private key."""

    ca: Path
    certificate: Path
    key: Path

    def server_credentials(self) -> grpc.ServerCredentials:
        """Refuses clients without a certificate of the CA."""
        ca, certificate, key = self.read()
        return grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=True)

    def renewable_server_credentials(self) -> "RenewableCredentials":
        """The same, with other files from a later moment on."""
        return RenewableCredentials(self)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        ca, certificate, key = self.read()
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def read(self) -> tuple[bytes, bytes, bytes]:
        """The three files. gRPC would take anything and fail at the first handshake without a reason."""
        content = self.ca.read_bytes(), self.certificate.read_bytes(), self.key.read_bytes()
        mode = stat.S_IMODE(self.key.stat().st_mode)
        if mode & stat.S_IRWXO:
            expected = f"a private key that other users cannot read: chmod 600 {self.key}"
            raise InputError(str(self.key), "permissions", f"{mode:04o}", expected)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            raise InputError(str(self.ca), "content", _what(error), "CA certificates in PEM") from None
        try:
            # An encrypted key must fail here and not ask the terminal for a password.
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except ssl.SSLError as error:
            expected = f"a certificate in PEM and, in {self.key}, its private key without a password"
            raise InputError(str(self.certificate), "content", _what(error), expected) from None
        return content


class RenewableCredentials:
    """Of a server: `renew` shows other certificates in the handshakes to come; connections that are open go on."""

    def __init__(self, files: TlsFiles) -> None:
        self._configuration = _configuration(files)
        # The callback comes from a thread of gRPC's, at every handshake.
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._configuration, lambda: self._configuration, require_client_authentication=True
        )

    def renew(self, files: TlsFiles) -> None:
        self._configuration = _configuration(files)


def _configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    ca, certificate, key = files.read()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=ca)


def _what(error: ssl.SSLError) -> str:
    return (error.reason or "no PEM").lower().replace("_", " ")


def tls_files(value: Value) -> TlsFiles:
    """Reads a [tls] table."""
    return TlsFiles(**read_table(value, dict.fromkeys(("ca", "certificate", "key"), Field(_path))))


def _path(value: Value) -> Path:
    if isinstance(value.found, str) and value.found and "\0" not in value.found:
        return Path(value.found)
    raise value.wrong("the path of a PEM file")


def expecting(server_name: str) -> list[tuple[str, str]]:
    """Channel options: the server's certificate must be for this name, whatever address it is reached at."""
    return [("grpc.ssl_target_name_override", server_name)]


def peer_names(auth_context: Mapping[str, Iterable[bytes]]) -> set[str]:
    """The DNS names in the peer's verified certificate; none on a connection without one.

    Neither its common name, which is free text, nor the other alternative names: an e-mail address or a URI may read
    like a host of the topology, and a CA checks each kind by other rules.
    """
    names = {name.decode("utf-8", "replace") for name in auth_context.get("peer_dns", ())}
    return {name for name in names if name.isprintable()} - {""}
