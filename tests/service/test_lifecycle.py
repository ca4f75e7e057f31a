"""The life of a daemon: in one process by requests, and as a process of its own by signals."""

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.flowcore.model.fields import InputError
from paceline.service.lifecycle import CannotStart, NothingToReload, Requests, run_daemon, serve
from paceline.service.notify import Notify


class Recorder:
    """A daemon that says what happened to it; what it is told to raise, it raises."""

    def __init__(self, **failures: BaseException) -> None:
        self.failures = failures
        self.happened: list[str] = []
        self.running = asyncio.Event()
        self.reloaded = asyncio.Event()

    def _happens(self, what: str) -> None:
        self.happened.append(what)
        if what in self.failures:
            raise self.failures[what]

    async def startup(self) -> None:
        self._happens("startup")

    async def run(self) -> None:
        self._happens("run")
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._happens("stopped")

    async def reload(self) -> None:
        self.reloaded.set()
        self._happens("reload")

    async def shutdown(self) -> None:
        self._happens("shutdown")

    def alive(self) -> bool:
        return True


class Heard(Notify):
    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[str] = []
        self.statuses: list[str] = []

    def _send(self, *lines: str) -> bool:
        self.lines.append(lines[0])
        self.statuses += [line.removeprefix("STATUS=") for line in lines if line.startswith("STATUS=")]
        return True


async def test_from_start_to_stop() -> None:
    daemon, requests, heard = Recorder(), Requests(), Heard()
    serving = asyncio.create_task(serve(daemon, requests, heard))
    await daemon.running.wait()
    assert heard.lines == ["READY=1"]
    requests.stop.set()
    await serving
    assert daemon.happened == ["startup", "run", "stopped", "shutdown"]
    assert heard.lines == ["READY=1", "STOPPING=1"]


async def test_a_stop_during_startup() -> None:
    class Waiting(Recorder):
        async def startup(self) -> None:
            self.running.set()
            await asyncio.Event().wait()

    daemon, requests, heard = Waiting(), Requests(), Heard()
    serving = asyncio.create_task(serve(daemon, requests, heard))
    await daemon.running.wait()
    requests.stop.set()
    await serving
    assert daemon.happened == ["shutdown"]
    assert heard.lines == ["STOPPING=1"]


@pytest.mark.parametrize(
    ("moment", "failure", "raised"),
    [
        ("startup", OSError(98, "Address already in use"), CannotStart),
        ("startup", InputError("x.toml", "name", "nothing", "a name"), InputError),
        ("run", OSError(5, "Input/output error"), OSError),
        ("run", RuntimeError("a bug"), RuntimeError),
    ],
)
async def test_whatever_fails_shutdown_follows(moment: str, failure: Exception, raised: type[Exception]) -> None:
    daemon = Recorder(**{moment: failure})
    with pytest.raises(raised):
        await serve(daemon, Requests(), Heard())
    assert daemon.happened[-2:] == [moment, "shutdown"]


async def test_a_failure_while_stopping_is_not_swallowed() -> None:
    daemon, requests = Recorder(stopped=RuntimeError("a bug")), Requests()
    serving = asyncio.create_task(serve(daemon, requests, Heard()))
    await daemon.running.wait()
    requests.stop.set()
    with pytest.raises(RuntimeError, match="a bug"):
        await serving
    assert daemon.happened[-1] == "shutdown"


@pytest.mark.parametrize(
    ("failure", "status", "level"),
    [
        (None, "running; reloaded", logging.INFO),
        (NothingToReload("restart it"), "running; nothing to reload", logging.WARNING),
        (InputError("x.toml", "name", "1", "a name"), "running as before; the reload was refused", logging.ERROR),
        (RuntimeError("a bug"), "running as before; the reload failed", logging.ERROR),
    ],
)
async def test_a_refused_reload_changes_nothing(failure: Exception | None, status: str, level: int, caplog) -> None:
    daemon, requests, heard = Recorder(**({"reload": failure} if failure else {})), Requests(), Heard()
    serving = asyncio.create_task(serve(daemon, requests, heard))
    await daemon.running.wait()
    for _ in range(2):
        daemon.reloaded.clear()
        requests.reload.set()
        await daemon.reloaded.wait()
        await asyncio.sleep(0)
    requests.stop.set()
    await serving
    assert daemon.happened == ["startup", "run", "reload", "reload", "stopped", "shutdown"]
    assert heard.lines == ["READY=1", *["RELOADING=1", "READY=1"] * 2, "STOPPING=1"]
    assert heard.statuses[1:3] == [status] * 2
    assert [record.levelno for record in caplog.records] == ([level] * 2 if failure else [])


async def test_the_watchdog_follows_the_daemon(monkeypatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    daemon, requests, heard = Recorder(), Requests(), Heard()
    serving = asyncio.create_task(serve(daemon, requests, heard))
    while heard.lines.count("WATCHDOG=1") < 3:
        await asyncio.sleep(0.001)
    requests.stop.set()
    await serving
    assert heard.lines[-1] == "STOPPING=1"


# ---- Exit statuses ----


@pytest.mark.parametrize(
    ("moment", "failure", "status", "line"),
    [
        ("make", InputError("x.toml", "k", "1", "a\nname"), 2, "hostd: x.toml: k: found 1, expected a\\nname\n"),
        ("make", FileNotFoundError(2, "No such file", "x.toml"), 2, "hostd: x.toml: No such file\n"),
        ("startup", OSError(98, "port 1: Address already in use"), 1, "hostd: port 1: Address already in use\n"),
        ("startup", PermissionError(1, "Operation not permitted"), 1, "hostd: Operation not permitted\n"),
        ("run", OSError(5, "Input/output error"), 1, ""),
        ("run", RuntimeError("a bug"), 1, ""),
        ("make", KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_failure_is_one_line_or_a_log(moment, failure, status, line, capsys, caplog) -> None:
    def make() -> Recorder:
        daemon = Recorder(**{moment: failure})
        if moment == "make":
            raise failure
        return daemon

    assert run_daemon("hostd", make) == status
    assert capsys.readouterr() == ("", line)
    logged = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(logged) == (1 if status == 1 and not line else 0)


def test_a_lock_that_cannot_be_made(tmp_path: Path, capsys) -> None:
    lock = tmp_path / "no" / "such" / "hostd.lock"
    assert run_daemon("hostd", Recorder, lock) == 2
    assert capsys.readouterr().err == f"hostd: {lock}: No such file or directory\n"


# ---- As a process ----

PROGRAM = """
import asyncio, sys
from pathlib import Path
from paceline.service.lifecycle import run_daemon

class Daemon:
    async def startup(self): print("started", flush=True)
    async def run(self): await asyncio.Event().wait()
    async def reload(self): print("reloaded", flush=True)
    async def shutdown(self):
        print("stopping", flush=True)
        if "slow" in sys.argv: await asyncio.sleep(100)
        print("stopped", flush=True)
    def alive(self): return True

sys.exit(run_daemon("testd", Daemon, Path(sys.argv[1])))
"""


@pytest.fixture
def start(tmp_path: Path):
    """Starts the program and waits until systemd would know it is ready."""
    started = []

    def start_one(*arguments: str) -> subprocess.Popen[str]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            address = tmp_path / f"notify-{len(started)}"
            systemd.bind(str(address))
            systemd.settimeout(60)
            command = [sys.executable, "-c", PROGRAM, str(tmp_path / "lock"), *arguments]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            started.append(subprocess.Popen(command, text=True, env={"NOTIFY_SOCKET": str(address)}, **pipes))
            assert systemd.recv(100).startswith(b"READY=1")
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals(number: signal.Signals, status: int, start) -> None:
    daemon = start()
    assert daemon.stdout.readline() == "started\n"
    daemon.send_signal(signal.SIGHUP)
    assert daemon.stdout.readline() == "reloaded\n"
    daemon.send_signal(number)
    assert daemon.communicate(timeout=60) == ("stopping\nstopped\n", "")
    assert daemon.returncode == status


def test_a_second_interrupt_does_not_wait(start) -> None:
    daemon = start("slow")
    daemon.send_signal(signal.SIGINT)
    assert [daemon.stdout.readline() for _ in range(2)] == ["started\n", "stopping\n"]
    daemon.send_signal(signal.SIGINT)
    assert daemon.communicate(timeout=60) == ("", "")
    assert daemon.returncode == 130


def test_a_second_instance(start, tmp_path: Path) -> None:
    first = start()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "lock")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert second.stdout == ""
    lock = tmp_path / "lock"
    assert second.stderr == f"testd: another instance (pid {first.pid}) is running; it holds {lock}\n"
