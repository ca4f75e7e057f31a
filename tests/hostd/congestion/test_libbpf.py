"""Congestion controls of our own: in the kernel while a process wants them, and gone with it."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.mltcp import control as mltcp
from hostd.congestion import libbpf
from hostd.congestion.build import build
from hostd.congestion.libbpf import BpfControl, BpfError
from hostd.congestion.weighted import NAME, OBJECT, Weighted
from tests.hostd.conftest import next_line, wait_until

pytestmark = pytest.mark.root

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
REGISTER = """
import time
from hostd.congestion.weighted import Weighted
with Weighted():
    print("registered", flush=True)
    time.sleep(60)
"""


def names() -> list[str]:
    return AVAILABLE.read_text().split()


@pytest.fixture
def registered() -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen([sys.executable, "-c", REGISTER], stdout=subprocess.PIPE, text=True)
    with process:
        assert next_line(process) == "registered"
        yield process
        process.kill()


def test_a_control_goes_with_its_process_and_its_sockets_go_on(registered: "subprocess.Popen[str]") -> None:
    assert NAME in names()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME.encode())
        peer = listener.accept()[0]
        registered.send_signal(signal.SIGKILL)
        registered.wait()
        wait_until(lambda: NAME not in names())
        with peer, socket.create_connection(listener.getsockname()) as other:
            one.sendall(b"still there")
            assert peer.recv(100) == b"still there"
            with pytest.raises(FileNotFoundError):
                other.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME.encode())


def test_why_there_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text.bpf.o").write_text("no object")
    with pytest.raises(BpfError, match=r"^text.bpf.o cannot be opened: .+$"):
        BpfControl(tmp_path / "text.bpf.o", NAME)
    with pytest.raises(BpfError, match=r"^the object has no vegas$"):
        BpfControl(OBJECT, "vegas")
    with Weighted(), pytest.raises(BpfError, match=r"^paceline cannot be registered: File exists$"):
        Weighted()
    for constant, value, reason in (("LIBRARY", "libno.so", "sudo apt install"), ("TYPES", tmp_path / "no", "types")):
        libbpf._libbpf.cache_clear()
        with monkeypatch.context() as changed, pytest.raises(BpfError, match=reason):
            changed.setattr(libbpf, constant, value)
            Weighted()


@pytest.mark.parametrize("shipped", [OBJECT, mltcp.OBJECT], ids=lambda path: path.name)
def test_an_object_is_what_its_source_says(shipped: Path, tmp_path: Path) -> None:
    source = shipped.with_suffix(".c")
    made = build(source, tmp_path / shipped.name).read_bytes()
    assert made == shipped.read_bytes(), f"python -m hostd.congestion.build {source}, with Debian's clang"


def test_a_libbpf_that_makes_the_link_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from 1.2 on; the library here may be older, and then what it leaves to us is done in its place."""
    real = libbpf._libbpf()
    links: dict[int, int] = {}

    class Newer:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def bpf_map__attach_struct_ops(self, control: int) -> int:
            made = int(real.bpf_map__attach_struct_ops(control))
            if real.bpf_link__fd(made) == real.bpf_map__fd(control):
                links[made] = libbpf._create_link(real.bpf_map__fd(control), "newer")
            return made

        def bpf_link__fd(self, link: int) -> int:
            return links.get(link) or int(real.bpf_link__fd(link))

    monkeypatch.setattr(libbpf, "_libbpf", Newer)
    with Weighted("newer"):
        assert "newer" in names()
    wait_until(lambda: "newer" not in names())
