"""One worker as hostd sees it: asked, heard, and never waited for longer than told."""

import marshal
import mmap
import os
import select
import socket
import sys
import time
from collections.abc import Sequence

from hostd.kernel.calls import Answer, Call
from hostd.kernel.pidfd import SocketGone
from hostd.workers import worker
from hostd.workers.child import Child, ForkedChild, start_child
from hostd.workers.worker import GONE, HELLO, MESSAGE_BYTES

STARTING_S = 10.0  # an interpreter takes a twentieth of a second, and the machine may be busy
MOST_BUSY = 0.4
BUSY_AT_ONCE_S = 0.1
_KEPT = ("info", "open", "search")  # if they come late
_FILE_BYTES = socket.CMSG_SPACE(4)
_message = memoryview(bytearray(MESSAGE_BYTES))  # recv() would have the memory mapped and unmapped each time
_ending: list[Child] = []  # to be asked for their status, or they would stay zombies


class Budget:
    """Of time: a part of what passes, and so much of it at once."""

    def __init__(self, part: float, most_s: float) -> None:
        self._part, self._most_s, self._left_s, self._at_s = part, most_s, most_s, time.monotonic()

    def left_s(self, now_s: float) -> float:
        self._left_s = min(self._most_s, self._left_s + self._part * (now_s - self._at_s))
        self._at_s = now_s
        return max(0.0, self._left_s)

    def spend(self, duration_s: float) -> None:
        self._left_s -= duration_s


class WorkerProcess:
    def __init__(self, now_s: float, forked: bool) -> None:
        """Raises OSError."""
        self.ready = self.ended = False
        self.free = True  # no answer is due
        self.answers: list[Answer] = []
        self.late: dict[Call, Answer] = {}  # answers that were not heard in time
        self.asked_s = self._ready_s = now_s
        self._calls: Sequence[Call] = ()
        self._busy = Budget(MOST_BUSY, BUSY_AT_ONCE_S)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._channel.setblocking(False)
            shared = os.memfd_create("paceline-worker")
            try:
                os.ftruncate(shared, mmap.PAGESIZE)
                self._busy_with = memoryview(mmap.mmap(shared, mmap.PAGESIZE)).cast("q")
                self.process = self._start((theirs.fileno(), shared), forked)
            except OSError:
                self._channel.close()
                raise
            finally:
                os.close(shared)
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    @staticmethod
    def _start(descriptors: tuple[int, int], forked: bool) -> Child:
        if forked:
            return ForkedChild(lambda: worker.main(list(map(str, descriptors))), descriptors)
        return start_child("hostd.workers.worker", descriptors, descriptors)

    @property
    def busy_with(self) -> int:
        """The process that its present call is about, 0 between calls."""
        return int(self._busy_with[0])

    def is_stuck(self, now_s: float, stuck_s: float) -> bool:
        if not self.ready:
            return now_s - self._ready_s > STARTING_S
        return not self.free and now_s - max(self.asked_s, self._ready_s) > stuck_s

    def ask(self, calls: list[Call], now_s: float, urgent: bool = False) -> bool:
        """Whether it takes them: one question at a time, and no more than it has time for."""
        if not self.free or self.ended or not (urgent or self._busy.left_s(now_s)):
            return False
        try:
            self._channel.send(marshal.dumps(calls))
        except OSError as error:
            self.ended = not isinstance(error, BlockingIOError)
            return False
        self._calls, self.asked_s, self.free = calls, now_s, False
        return True

    def answers_until(self, until_s: float) -> bool:
        """Whether it has; `answers` has them then."""
        while not self.free and not self.ended:
            left_s = until_s - time.monotonic()
            if not self._poll.poll(max(0.0, left_s * 1e3)):
                return False
            self._receive()
        if self.late:
            self._forget_late()
        return self.free and not self.ended

    def finishes_until(self, until_s: float) -> None:
        """What it was asked before; nothing is waited for if there is nothing."""
        if not self.free:
            self._poll.poll(max(0.0, (until_s - time.monotonic()) * 1e3))
            self.hear()

    def hear(self) -> None:
        """What came since it was last asked. One that owes nothing says nothing; if it has ended, asking it tells."""
        if self.free and self.ready:
            return
        late = not self.free
        while not self.ended and self._poll.poll(0):
            self._receive()
        if late and self.free:
            self._forget_late()
            self.late = {call: it for call, it in zip(self._calls, self.answers, strict=True) if call[0] in _KEPT}

    def close(self) -> None:
        """Ends it; one that is in a call on a job's object ends when that returns, and is not waited for."""
        self.ended = True
        self._forget_late()
        self._channel.close()
        self.process.kill()
        if self.free:  # at once
            self.process.wait()
        _ending[:] = [process for process in (*_ending, self.process) if process.poll() is None]

    def _forget_late(self) -> None:
        for call, answer in self.late.items():
            if call[0] == "open" and isinstance(answer, int):
                os.close(answer)
        self.late = {}

    def _receive(self) -> None:
        try:
            size, ancillary, flags, _ = self._channel.recvmsg_into([_message], _FILE_BYTES, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            size, ancillary, flags = 0, [], 0
        if not size or flags & socket.MSG_TRUNC:  # a worker sends no more than MESSAGE_BYTES
            self.ended = True
        elif (message := _message[:size]) == HELLO:
            self.ready, self._ready_s = True, time.monotonic()
        else:
            answers, took_s = marshal.loads(message)
            self._busy.spend(took_s)
            self.answers = [value if not error else _error(error, value) for error, value in answers]
            for _, _, number in ancillary:  # a descriptor, asked for alone
                self.answers = [int.from_bytes(number[:4], sys.byteorder)]
            self.free = True


def _error(error: int, value: str) -> SocketGone | OSError:
    return SocketGone(value) if error == GONE else OSError(error, value)
