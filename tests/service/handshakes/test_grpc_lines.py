"""What gRPC's lines on standard error say of handshakes; in a program of its own, the rest of them is gone."""

import subprocess
import sys

import pytest

from paceline.service.handshakes.grpc_lines import refusal_in

HEAD = "I1117 00:57:58.919357   15368 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
BORING = "error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"{HEAD}{BORING}CERTIFICATE_VERIFY_FAILED: certificate has expired", "certificate has expired"),
        (f"{HEAD}{BORING}PEER_DID_NOT_RETURN_A_CERTIFICATE", "peer did not return a certificate"),
        (f"{HEAD}something new", "something new"),
        ("I1117 00:57:58.919357   15368 log.cc:102] Log level INFO is not suitable", None),
    ],
)
def test_why_a_handshake_failed(line: str, why: str | None) -> None:
    assert refusal_in(line) == why


def test_other_lines_pass_and_grpcs_own_do_not() -> None:
    program = """
import os, sys, time
from paceline.service.handshakes import grpc_lines
heard = []
grpc_lines.capture()
grpc_lines.on_refused_handshake = heard.append
import grpc
print("by Python", file=sys.stderr)
os.write(2, b"by a library\\n")
os.write(2, b"I1117 00:57:58.9 1 a.cc:1] of no interest\\n")
os.write(2, b"I1117 00:57:58.9 1 a.cc:1] Handshake failed with error X: OPENSSL_internal:HTTP_REQUEST\\n")
end = time.monotonic() + 20
while not heard and time.monotonic() < end:
    time.sleep(0.01)
print(heard)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['http request']\n"
    assert sorted(done.stderr.splitlines()) == ["by Python", "by a library"]
