"""Handshakes that a server refused: gRPC tells of them on standard error alone, in a format of its own.

    gRPC ── descriptor 2 ──▶ pipe ──▶ a thread ──▶ `on_refused_handshake`         its other lines are dropped
    Python ── sys.stderr ──▶ the real standard error

Law: only for a program of its own, once, before grpc is imported, because its C core reads its variables then; not
where an operator asked for gRPC's own lines (GRPC_VERBOSITY). What is no line of gRPC's passes through as it is. The
address of the peer is not in these lines; a peer of ours says the same in its own log.
"""

import faulthandler
import os
import re
import sys
from collections.abc import Callable
from threading import Thread

on_refused_handshake: Callable[[str], None] | None = None  # called from the thread

_GRPC = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ \S+:\d+\] ")
_REFUSED = re.compile(r"Handshake failed with (?:fatal )?error \S*: (?P<why>.*)")
_REASON = re.compile(r"[A-Z0-9_]{4,}(: (?P<detail>.+))?")


def capture() -> None:
    """From now on, for as long as the process lives."""
    if os.environ.get("GRPC_VERBOSITY", "NONE") != "NONE" or "grpc" in sys.modules:
        return
    os.environ["GRPC_VERBOSITY"] = "INFO"
    real = os.dup(2)
    sys.stderr = os.fdopen(real, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    faulthandler.enable(sys.stderr)  # a crash must not end in a pipe that no thread reads any more
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    Thread(target=_read, args=(reading, real), name="grpc lines", daemon=True).start()


def _read(reading: int, real: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            text = line.decode(errors="replace").rstrip("\n")
            if not _GRPC.match(text):
                os.write(real, line)
            elif (why := refusal_in(text)) is not None and on_refused_handshake is not None:
                on_refused_handshake(why)


def refusal_in(line: str) -> str | None:
    """Why a handshake failed, of a line that says so: certificate has expired."""
    found = _REFUSED.search(line)
    if found is None:
        return None
    last = found["why"].rpartition("OPENSSL_internal:")[2]
    reason = _REASON.fullmatch(last)
    if reason is None:
        return last
    return reason["detail"] or last.lower().replace("_", " ")
