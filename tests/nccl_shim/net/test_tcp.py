"""Our own transport under a player of NCCL's calls: two processes over the loopback."""

import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from nccl_shim import build
from tests.nccl_shim.net.nccl import HANDLE_BYTES, REMOTE_ERROR, Net
from tests.nccl_shim.net.pair import exchanged, pair

pytestmark = pytest.mark.slow

MOST_REQUESTS = 32
SIZES = (0, 1, 7, 4096, 65_535, 524_288, 4 << 20)


@pytest.mark.parametrize("version", (8, 12))  # test_wrapped.py has them all
def test_bytes_arrive_in_old_and_new_versions(net_library: Path, version: int) -> None:
    sender, receiver = exchanged(net_library, [(size, 3) for size in SIZES], version=version)
    assert receiver["wrong"] == [] and len(receiver["times_s"]) == len(sender["times_s"]) == len(SIZES)
    assert (sender["name"], sender["refused"]) == ("Paceline", 0)


def test_many_at_once_and_large_ones(net_library: Path) -> None:
    draws = random.Random(5)
    messages = [(draws.choice((0, 1, 100, 5000, 70_000, 1 << 20)), 0) for _ in range(200)] + [(64 << 20, 0)]
    _, receiver = exchanged(net_library, messages, outstanding=MOST_REQUESTS)
    assert receiver["wrong"] == []


def test_a_message_goes_to_the_receive_with_its_tag(net_library: Path) -> None:
    messages = [(1000 + number, number % 4) for number in range(24)]
    # Posted by tag: within one tag the order stays, between tags it is another.
    order = sorted(range(24), key=lambda number: (number // 12, messages[number][1], number))
    with pair(net_library, {"messages": messages, "outstanding": 32}, {"receive_order": order}) as both:
        assert both.results()[1]["wrong"] == []


def test_less_than_there_is_room_for(net_library: Path) -> None:
    with pair(net_library, {"messages": [(10, 0), (0, 0), (100_000, 0)]}, {"room": 1 << 20}) as both:
        assert both.results()[1]["wrong"] == []


def test_more_than_there_is_room_for_is_an_error(net_library: Path) -> None:
    with pair(net_library, {"messages": [(2000, 0)]}, {"messages": [(1000, 0)]}) as both:
        assert both.results()[1]["code"] == REMOTE_ERROR


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    preload = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not Path(preload.strip()).is_absolute():
        pytest.skip("no address sanitizer here")
    flags = ["-O0", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    library = build.build_net(tmp_path / build.NET_LIBRARY_NAME, flags)
    plan = {"messages": [(size, size % 3) for size in SIZES[:-1]] * 4, "outstanding": MOST_REQUESTS, "close_after": 22}
    env = {"LD_PRELOAD": preload.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    with pair(library, plan, extra_env=env) as both:
        sender, receiver = both.results()
    assert "error" not in sender and receiver["code"] == REMOTE_ERROR


def test_closing_in_the_middle(net_library: Path) -> None:
    """What was sent before arrives; what comes no more is an error, and no wait for ever."""
    messages = [(70_000, number) for number in range(20)]
    with pair(net_library, {"messages": messages, "close_after": 6, "outstanding": 1}, {"close_after": None}) as both:
        sender, receiver = both.results()
    assert "error" not in sender
    assert (receiver["code"], receiver["done"]) == (REMOTE_ERROR, 6)


@pytest.mark.parametrize("killed", ["sender", "receiver"])
def test_a_peer_that_dies_is_an_error(net_library: Path, killed: str) -> None:
    with pair(net_library, {"messages": [(1 << 20, 0)] * 4000, "same_bytes": True, "unchecked": True}) as both:
        time.sleep(0.4)
        dead, left = (both.sender, both.receiver) if killed == "sender" else (both.receiver, both.sender)
        os.kill(dead.pid, signal.SIGKILL)
        output, errors = left.communicate(timeout=20)
        assert left.returncode == 0, errors
        assert f'"code": {REMOTE_ERROR}' in output


def test_another_programs_connection_is_not_a_peers(net_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight that say nothing, one that says nonsense and one that looks for another listener, before the peer comes."""
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("PACELINE_NET_WRAPS", "none")
    net = Net(net_library, 12)
    handle, listening = net.listen()
    [port] = struct.unpack(">H", handle[18:20])
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    strangers[3].sendall(b"GET / HTTP/1.1\r\n\r\n")
    strangers[4].sendall(handle[:8] + bytes(8))  # one of ours that was told another listener's secret
    for _ in range(30):
        assert not net.accept(listening)
        time.sleep(0.002)
    told = ctypes.create_string_buffer(handle, HANDLE_BYTES)
    sending, receiving = None, None
    for _ in range(1000):
        sending = sending or net.connect(told)
        receiving = receiving or net.accept(listening)
        if sending and receiving:
            break
        time.sleep(0.001)
    assert sending and receiving
    net.close("Send", sending)
    net.close("Recv", receiving)
    net.close("Listen", listening)
    for one in strangers:
        one.close()
