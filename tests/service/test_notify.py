"""What systemd hears, on real sockets."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.service.notify import Notify, ping_watchdog_while_alive, watchdog_interval


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(10)

    def heard(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def silent(self) -> bool:
        self.socket.setblocking(False)
        try:
            self.socket.recv(4096)
            return False
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(10)


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@paceline-test-{os.getpid()}"
    listener = Systemd(address)
    yield listener
    listener.socket.close()


def test_each_state(systemd: Systemd) -> None:
    notify = Notify.from_environment({"NOTIFY_SOCKET": systemd.address})
    assert notify.ready("48 hosts")
    assert systemd.heard() == ["READY=1", "STATUS=48 hosts"]
    assert notify.status("two\nlines=1")
    assert systemd.heard() == ["STATUS=two\\nlines=1"]
    before_usec = time.monotonic_ns() // 1000
    assert notify.reloading()
    state, stamp = systemd.heard()
    assert state == "RELOADING=1"
    assert before_usec <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
    assert notify.stopping()
    assert systemd.heard()[0] == "STOPPING=1"
    assert notify.ping_watchdog()
    assert systemd.heard() == ["WATCHDOG=1"]


NO_LISTENER = [None, "/no/such/socket", "@no-listener-here", "vsock:2:1", "a\0b", "/" + "x" * 200]


@pytest.mark.parametrize("address", NO_LISTENER)
def test_no_listener_is_no_failure(address: str | None) -> None:
    assert not Notify(address).ready()


def test_outside_systemd_there_is_no_listener() -> None:
    assert Notify.from_environment({}).address is None
    assert Notify.from_environment({"NOTIFY_SOCKET": ""}).address is None


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_watchdog_interval(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(environment) == seconds


async def test_the_watchdog_is_pinged_while_there_is_progress(systemd: Systemd) -> None:
    asked = asyncio.Semaphore(0)
    progress = True

    def alive() -> bool:
        asked.release()
        return progress

    task = asyncio.create_task(ping_watchdog_while_alive(Notify(systemd.address), 0.002, alive))
    for _ in range(3):
        await asked.acquire()
        assert systemd.heard() == ["WATCHDOG=1"]
    progress = False  # nothing else ran since the last answer, so no ping is under way
    for _ in range(4):
        await asked.acquire()
    task.cancel()
    assert systemd.silent()


async def test_a_daemon_that_was_late_is_asked_again_long_before_it_would_be_killed(systemd: Systemd) -> None:
    answers, interval_s = iter([True, False, True, True]), 1.0
    task = asyncio.create_task(ping_watchdog_while_alive(Notify(systemd.address), interval_s, lambda: next(answers)))
    began_s = asyncio.get_running_loop().time()
    await asyncio.sleep(0.8 * interval_s)
    task.cancel()
    assert systemd.heard() == ["WATCHDOG=1"] == systemd.heard()
    assert asyncio.get_running_loop().time() < began_s + interval_s


async def test_unwatched_means_no_task() -> None:
    await ping_watchdog_while_alive(Notify(None), None, lambda: True)
