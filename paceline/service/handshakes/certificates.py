"""Whether a daemon's certificate will be accepted, before it shows it: a handshake with itself, in memory.

    not from the CA, or for another use      refused by OpenSSL, as a peer would refuse it
    not valid yet, or expired                by this machine's clock, the CA's certificate, too
    without the daemon's name                DNS names count (subjectAltName), as tls.py says

gRPC would take any of these at its start, and then fail at every handshake without a word.
"""

import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from paceline.flowcore.model.fields import InputError
from paceline.service.tls import TlsFiles

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: dates are compared here, to say them


@dataclass(frozen=True, slots=True)
class Inspected:
    """Times are seconds since 1970."""

    names: tuple[str, ...]
    begins_s: float
    expires_s: float
    ca_expires_s: float


def require_valid(files: TlsFiles, name: str | None, now_s: float | None = None) -> Inspected:
    """What the files hold, if it is good for this daemon now; raises InputError, or OSError for a missing file. Without
    a name any will do."""
    files.read()
    found = inspect(files)
    now_s = time.time() if now_s is None else now_s
    again = f"paceline certs issue DIR {name or 'NAME'} --force makes another"
    if now_s >= found.ca_expires_s:
        raise InputError(str(files.ca), "validity", f"expired on {_date(found.ca_expires_s)}", "a CA that is valid now")
    if now_s >= found.expires_s:
        expected = f"a certificate that is valid now; {again}"
        raise InputError(str(files.certificate), "validity", f"expired on {_date(found.expires_s)}", expected)
    if now_s < found.begins_s:
        expected = "a certificate that is valid now; is this machine's clock right?"
        raise InputError(str(files.certificate), "validity", f"not before {_date(found.begins_s)}", expected)
    if name is not None and name not in found.names:
        names = ", ".join(found.names[:5]) or "none"
        expected = f"{name} among its DNS names (subjectAltName); {again}"
        raise InputError(str(files.certificate), "names", names, expected)
    return found


def inspect(files: TlsFiles) -> Inspected:
    """Raises InputError where the certificate is not from the CA."""
    # Each end verifies the other one's: the same certificate is for clients and servers.
    server, client = (_context(files, protocol) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    try:
        peer = _handshake(server, client)
    except ssl.SSLCertVerificationError as error:
        expected = f"a certificate that {files.ca} signed, for clients and servers"
        raise InputError(str(files.certificate), "issuer", f"refused ({error.verify_message})", expected) from None
    except ssl.SSLError as error:
        expected = "a certificate that a handshake accepts"
        raise InputError(str(files.certificate), "content", str(error.reason).lower(), expected) from None
    names = tuple(name for kind, name in peer.get("subjectAltName", ()) if kind == "DNS")
    authorities = [ssl.cert_time_to_seconds(str(ca["notAfter"])) for ca in client.get_ca_certs()]
    return Inspected(
        names,
        ssl.cert_time_to_seconds(str(peer["notBefore"])),
        ssl.cert_time_to_seconds(str(peer["notAfter"])),
        max(authorities, default=0.0),
    )


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= _NO_CHECK_TIME
    context.load_verify_locations(files.ca)
    context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    return context


def _handshake(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> dict[str, tuple[tuple[str, str], ...]]:
    """The server's certificate, as the client has verified it; each end has verified the other by then."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):  # a handshake takes two or three
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return client.getpeercert() or {}  # type: ignore[return-value]
    raise ssl.SSLError("the handshake does not end")


def _date(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M} UTC"
