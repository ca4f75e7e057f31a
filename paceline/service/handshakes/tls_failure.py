"""Why a handshake with a server failed, in words: the same handshake once more, by a library that tells.

gRPC says of a certificate that the other end refused only that the connection ended. A handshake that this end finds
good, after which the other end hangs up, is how that looks: a gRPC server sends no alert, and would speak first.
"""

import socket
import ssl

from paceline.flowcore.model.fields import InputError
from paceline.service.address import host_port
from paceline.service.handshakes.certificates import require_valid
from paceline.service.tls import TlsFiles

WAIT_S = 2.0


def why_handshake_fails(files: TlsFiles | None, own_name: str | None, name: str | None, address: str) -> str | None:
    """One phrase; None: it does not fail, or there is no server at all. `own_name` and `name` are those that the two
    certificates should be for; None: as the address says. It waits for the server: for a thread."""
    where = host_port(address)
    other = name or address
    try:
        with socket.create_connection(where, WAIT_S) as plain:
            plain.settimeout(WAIT_S)
            with _context(files).wrap_socket(plain, server_hostname=name or where.host) as secured:
                if secured.recv(1):  # its settings
                    return None
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of {other} is refused here: {error.verify_message.rstrip('.')}"
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            return f"{other} speaks without TLS" if files is not None else None
        return f"the handshake with {other} fails: {(error.reason or str(error)).lower().replace('_', ' ')}"
    except (OSError, ValueError):  # no server, or files that have gone
        return None
    if files is None:
        return f"{other} speaks with TLS only"
    return f"{other} refuses this end's certificate, {_own(files, own_name)}"


def _context(files: TlsFiles | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca) if files is not None else None)
    if files is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    context.set_alpn_protocols(["h2"])  # without it a gRPC server hangs up, whatever the certificates are
    return context


def _own(files: TlsFiles, own_name: str | None) -> str:
    """What may be wrong with it, as far as this end can tell."""
    try:
        require_valid(files, own_name)
    except InputError as error:
        return str(error)
    except OSError as error:
        return str(error)
    return f"{files.certificate}: is it from the CA that the other end knows, and is the other end's clock right?"
