"""hostd's end: which registrations there are. Law: nothing here waits, and no call is made on an object of a job.

The registrar (registrar.py) does all that could wait; what comes from it is sealed memory. Another one is started where
it has ended: jobs see that, and register again. What they had registered stays until then: the same memory of the same
process is the same registration.
"""

import logging
import marshal
import os
import resource
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hostd.registration.protocol import MESSAGE_BYTES, MOST_NAMED, WHY, Refusal
from hostd.workers.child import start_child

_log = logging.getLogger(__name__)

MOST_MESSAGES = 64  # at once: the rest the next time
MOST_OPEN = 16_384
RESTART_S, FAILED_S = 5.0, 60.0
NAMED_S = 30.0  # so long a refused process is named
_ONE_DESCRIPTOR = socket.CMSG_LEN(4)


class Registered(NamedTuple):
    name: str  # of this memory of this process
    pid: int
    started: int  # in ticks
    uid: int
    memory: int  # its descriptor, for the receiver to close


class Ended(NamedTuple):
    name: str


class Registrations:
    def __init__(self, path: Path, on_change: Callable[[Registered | Ended], None] | None = None) -> None:
        """`on_change` hears of each before `receive` returns it."""
        self.path = path
        self._on_change = on_change
        self.listens = False
        self.refused: Counter[str] = Counter({refusal.value: 0 for refusal in Refusal})  # so far, by reason
        self._named: dict[tuple[int, int], tuple[float, str]] = {}  # (pid, uid) → when and why
        self._names: dict[int, str] = {}  # by the registrar's numbers
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._dying: list[subprocess.Popen[bytes]] = []
        self._start_s = 0.0  # when to start the next one
        self._failure = ""
        _raise_limit()
        self._start()

    @property
    def registrar_pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def pending(self) -> bool:
        """Whether there is something to `receive`."""
        if self._channel is None:
            return time.monotonic() >= self._start_s
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def receive(self) -> list[Registered | Ended]:
        """What has happened since."""
        if self._channel is None and time.monotonic() >= self._start_s:
            self._start()
        happened: list[Registered | Ended] = []
        for _ in range(MOST_MESSAGES):
            if self._channel is None:
                break
            try:
                text, ancillary, _, _ = self._channel.recvmsg(MESSAGE_BYTES, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                break
            except OSError:
                text, ancillary = b"", []
            if not text:
                if self.listens:
                    _log.warning("the registrar has ended; another one is started, and jobs register again")
                self._lost()
                break
            memory = [int.from_bytes(data[:4], "little", signed=True) for _, _, data in ancillary]
            happened += self._understand(marshal.loads(text), memory)
        if self._on_change is not None:
            for one in happened:
                self._on_change(one)
        return happened

    def refuse(self, one: Registered, why: str) -> None:
        """What is in its memory is no segment."""
        self._note({Refusal.SEGMENT.value: 1}, [(one.pid, one.uid, why)])

    def named(self) -> dict[str, str]:
        """The processes that were refused lately, and why."""
        since_s = time.monotonic() - NAMED_S
        self._named = {key: value for key, value in self._named.items() if value[0] > since_s}
        return {f"{pid} of uid {uid}": f"not registered: {why}" for (pid, uid), (_, why) in self._named.items()}

    def close(self) -> None:
        """The registrar ends by itself."""
        self.path.unlink(missing_ok=True)
        self._lost()
        for process in self._dying:
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)

    def _start(self) -> None:
        self._start_s = time.monotonic() + RESTART_S
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setblocking(False)
            try:
                self._process = start_child(
                    "hostd.registration.registrar", (self.path, theirs.fileno()), (theirs.fileno(),)
                )
            except OSError as error:
                ours.close()
                self._fail(str(error))
                return
        self._channel = ours

    def _lost(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel, self.listens = None, False
        self._names.clear()
        self._dying = [process for process in self._dying if process.poll() is None]
        if self._process is not None:
            self._process.kill()
            self._dying.append(self._process)
            self._process = None

    def _understand(self, message: tuple[object, ...], memory: list[int]) -> list[Registered | Ended]:
        match message:
            case ("new", int(number), int(pid), int(started), int(uid)) if memory:
                name = f"{pid}-{started}-{os.fstat(memory[0]).st_ino}"
                self._names[number] = name
                return [Registered(name, pid, started, uid, memory[0])]
            case ("gone", int(number)):
                name = self._names.pop(number, "")
                return [Ended(name)] if name and name not in self._names.values() else []
            case ("refused", dict(counts), tuple(named)):
                self._note(counts, [(pid, uid, WHY[Refusal(reason)]) for pid, uid, reason in named])
            case ("listens",):
                self.listens, self._failure = True, ""
                _log.info("jobs register at %s", self.path)
            case ("failed", str(why)):
                self._fail(why)
        return []

    def _fail(self, why: str) -> None:
        self._start_s = time.monotonic() + FAILED_S
        if why != self._failure:
            self._failure = why
            _log.warning("jobs cannot register at %s: %s; their files are looked for", self.path, why)

    def _note(self, counts: dict[str, int], named: list[tuple[int, int, str]]) -> None:
        self.refused.update(counts)
        for pid, uid, why in named:
            self._named.pop((pid, uid), None)
            self._named[pid, uid] = time.monotonic(), why
        while len(self._named) > MOST_NAMED:
            del self._named[next(iter(self._named))]


def _raise_limit() -> None:
    """A descriptor for each segment, and some for all else; the registrar has two for each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
