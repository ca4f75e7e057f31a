"""A plugin of each version behind ours, called in each version: what it is told, and what NCCL sees of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nccl_shim import build
from nccl_shim.page.layout import Entry, State, peer_bytes
from nccl_shim.page.writer import PageWriter
from tests.nccl_shim.net.nccl import VERSIONS
from tests.nccl_shim.net.pair import ROOT
from tests.nccl_shim.net.wrap import EVENT, SIZE, TAG

pytestmark = pytest.mark.slow

FAKE = Path(__file__).with_name("fake.c")


def compile_fake(output: Path, version: int, *flags: str) -> Path:
    build.run_compiler(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-DVERSION={version}", *flags,
                        str(FAKE), "-o", str(output)])  # fmt: skip
    return output


def run_wrap(ours: Path, fake: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "PACELINE_"))}
    env |= {"PACELINE_NET_WRAPS": str(fake), "NCCL_SOCKET_IFNAME": "lo", "PACELINE_PAGE": "/nonexistent"} | more
    command = [sys.executable, "-m", "tests.nccl_shim.net.wrap", str(ours), str(fake)]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def wrapped(ours: Path, fake: Path, **more: str) -> dict[int, dict[str, Any]]:
    done = run_wrap(ours, fake, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return {int(version): found for version, found in json.loads(done.stdout).items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_it_is_told_and_what_is_seen_of_it(net_library: Path, tmp_path: Path, version: int) -> None:
    found = wrapped(net_library, compile_fake(tmp_path / "libnccl-net-fake.so", version))
    for by, seen in found.items():
        newest = min(by, version)  # what both know
        told, properties = seen["told"], seen["properties"]
        assert (seen["name"], seen["devices"], seen["refused"] <= 1) == ("Fake", 3, True)
        assert (told["device"], told["bytes"], told["tag"]) == (2, SIZE, TAG)
        assert (told["receive_bytes"], told["receive_tag"], told["closed"]) == (SIZE, TAG, 3)
        assert seen["memory_kept"] and seen["request_kept"] and seen["comm_kept"] and seen["context_kept"]
        assert seen["tested"] == [4242, 4242]
        assert (told["event"] == told["receive_event"] == EVENT) if newest >= 10 else not told["event"]
        assert properties["guid"] == 0x1234567890ABCDEF + 1
        assert (properties["name"], properties["pciPath"], properties["speed"]) == ("fake0", "/sys/fake", 400_000)
        assert (properties["ptrSupport"], properties["regIsGlobal"], properties["maxRecvs"]) == (7, 1, 8)
        assert (properties["netDeviceType"], properties["netDeviceVersion"], properties["latency"]) == (1, 7, 1.5)
        if by >= 9:
            assert properties["maxP2pBytes"] == (1 << 35 if version >= 9 else 1 << 30)
            assert properties["forceFlush"] == (version >= 9)
            assert seen.get("virtual") == ([9, 231] if version >= 9 else None)
        if by >= 11:
            assert properties["maxMultiRequestSize"] == (6 if version >= 11 else 1)
            assert (told["finalizes"], told["attributes"]) == ((1, 1) if version >= 11 else (0, 0))
        if by >= 12:
            assert (properties["railId"], properties["planeId"]) == ((3, 4) if version >= 12 else (-1, -1))
        if version >= 11 and by >= 11:
            assert (told["comm_id"], told["config"]) == (77, 55)
        if version == 10 and by >= 10:
            assert told["connect_config"] == 55
        assert seen["lacking"] == [name for name in ("makeVDevice",) if version < 9 <= by] + [
            name for name in ("setNetAttr",) if version < 11 <= by
        ]


def test_what_it_lacks_nccl_finds_lacking(net_library: Path, tmp_path: Path) -> None:
    for by, seen in wrapped(net_library, compile_fake(tmp_path / "bare.so", 12, "-DBARE")).items():
        assert {"regMrDmaBuf", "getDeviceMr", "irecvConsumed"} <= set(seen["lacking"])
        assert ("makeVDevice" in seen["lacking"]) == (by >= 9)


def test_its_handle_is_its_own(net_library: Path, tmp_path: Path) -> None:
    """The end of a handle carries our address where the plugin leaves it free; its connect never sees that."""
    for seen in wrapped(net_library, compile_fake(tmp_path / "short.so", 11)).values():
        assert seen["tagged"]
        assert bytes.fromhex(seen["handle_at_connect"])[104:] == bytes(24)
    for seen in wrapped(net_library, compile_fake(tmp_path / "full.so", 11, "-DFULL_HANDLE")).values():
        assert not seen["tagged"]
        assert bytes.fromhex(seen["handle_at_connect"]) == b"\x77" * 128


def test_its_sends_are_held_by_peer(net_library: Path, tmp_path: Path) -> None:
    fake, now_ns = compile_fake(tmp_path / "fake.so", 12), time.monotonic_ns()
    with PageWriter(tmp_path, 1, 1, 1_000_000_000) as page:  # slots of a second: its heartbeat is good for five
        page.write([Entry(peer_bytes("127.0.0.1"), State.HELD, now_ns + 500_000_000)])
        first = next(iter(wrapped(net_library, fake, PACELINE_PAGE=str(page.path)).values()))
        assert time.monotonic_ns() > now_ns + 500_000_000 and first["refused"] > 1
        page.write([Entry(peer_bytes("10.0.0.1"), State.HELD, 2**62)])
        first = next(iter(wrapped(net_library, fake, PACELINE_PAGE=str(page.path)).values()))
        assert first["refused"] <= 1


def test_it_is_found_as_nccl_finds_it(net_library: Path, tmp_path: Path) -> None:
    """By a short name, by the first of several that loads, and libnccl-net.so without being named."""
    fake = compile_fake(tmp_path / "libnccl-net-fake.so", 9)
    found = wrapped(net_library, fake, PACELINE_NET_WRAPS="nowhere,fake", LD_LIBRARY_PATH=str(tmp_path))
    assert found[12]["name"] == "Fake"
    fake.rename(tmp_path / "libnccl-net.so")
    path = {"LD_LIBRARY_PATH": str(tmp_path)}
    found = wrapped(net_library, tmp_path / "libnccl-net.so", PACELINE_NET_WRAPS="", **path)
    assert found[12]["name"] == "Fake"


def test_one_that_cannot_be_loaded_leaves_nccl_to_itself(net_library: Path, tmp_path: Path) -> None:
    done = run_wrap(net_library, compile_fake(tmp_path / "fake.so", 8), PACELINE_NET_WRAPS="missing")
    assert done.returncode != 0 and "NetError: init: 2" in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("paceline: ")]
    assert lines == ["paceline: the net plugin missing is not used: it cannot be opened; NCCL goes on without it"]
    again = run_wrap(net_library, net_library)
    assert "it is this library itself" in again.stderr
