"""Workers: a process per user that makes the calls on that user's jobs (calls.py).

    perform      each user's calls to its worker, all at once; answers that come within a few milliseconds
    late         the next call finds the answer, or hears NotAnswered again; meanwhile nothing is waited for
    stuck        after STUCK_S the worker is killed and left behind, and the process it was busy with is left alone
                 until the worker has died: that is when the call has come back. Another worker takes its place.

Law: however many calls never return, and in whichever processes, this process waits for no more than a part of its time
(MOST_WAITING), a user's calls take no more than a part of a core (MOST_BUSY), and no user's calls delay another's.
"""

import time
from collections.abc import Container, Sequence

from hostd.kernel.calls import HASTY_S, LATE, Answer, Call, Held, NotAnswered, uid_of
from hostd.kernel.pidfd import SocketGone
from hostd.workers.child import Child
from hostd.workers.worker_process import Budget, WorkerProcess

STUCK_S = 0.5
STUCK_IN_RELEASE_S = 0.15  # there another worker must still have its time
MOST_WAITING, WAITING_AT_ONCE_S = 0.25, 0.03
MOST_STUCK = 4  # of a user: with more, all of its processes are left alone
MOST_USERS = 64
MOST_CALLS = 2048  # in a message
CALL_S = 10e-6  # what a call takes, about
HOUSEKEEPING_S, IDLE_S, RESTART_S = 1.0, 60.0, 1.0
_PENDING = object()


class Workers:
    """Performs calls for a process that must not be kept waiting."""

    def __init__(self, forked: bool = False) -> None:
        """`forked`: this process has no threads, so that workers need no interpreter of their own."""
        self._forked = forked
        self.held: dict[int, str] = {}  # processes that are left alone, and why
        self._of_user: dict[int, WorkerProcess] = {}
        self._stuck: list[tuple[int, int, Child]] = []  # uid, pid, and the worker
        self._started_s: dict[int, float] = {}  # by uid
        self._uids: dict[int, int] = {}  # of processes, for a second
        self._waiting = Budget(MOST_WAITING, WAITING_AT_ONCE_S)
        self._housekeeping_s = 0.0

    def perform(self, calls: Sequence[Call], wait_s: float = HASTY_S) -> list[Answer]:
        now_s = time.monotonic()
        if now_s >= self._housekeeping_s:
            self._keep_house(now_s)
        answers, by_user = self._sorted(calls)
        asked: list[tuple[WorkerProcess, list[int]]] = []
        for uid, indices in by_user.items():
            worker = self._worker(uid, now_s, STUCK_S)
            if worker is not None and wait_s > HASTY_S and worker.ready:  # what is set must not go lost
                worker.finishes_until(now_s + min(wait_s, self._waiting.left_s(now_s)))
            if worker is not None and worker.ask([calls[index] for index in indices[:MOST_CALLS]], now_s):
                asked.append((worker, indices))
        until_s = now_s + min(wait_s, self._waiting.left_s(now_s))
        for worker, indices in asked:
            worth_it = worker.ready and len(indices) * CALL_S < wait_s  # if not, the answer is there the next time
            if worker.answers_until(until_s if worth_it else now_s):
                for index, answer in zip(indices, worker.answers, strict=False):
                    answers[index] = answer
        for uid, indices in by_user.items():
            late = worker.late if (worker := self._of_user.get(uid)) is not None else {}
            for index in indices:
                if answers[index] is _PENDING:
                    answers[index] = late.pop(calls[index], None) or NotAnswered(LATE)
        self._waiting.spend(time.monotonic() - now_s)
        return answers

    def perform_all(self, calls: Sequence[Call], within_s: float) -> list[Answer]:
        """A worker that gets stuck is left behind soon, and the calls on other processes made by the next one."""
        until_s = time.monotonic() + within_s
        answers: list[Answer] = [NotAnswered("did not answer in time")] * len(calls)
        left = list(range(len(calls)))
        while left and (now_s := time.monotonic()) < until_s:
            found, by_user = self._sorted([calls[index] for index in left])
            self._make_room(by_user)
            busy, asked = list[WorkerProcess](), list[tuple[WorkerProcess, list[int]]]()
            for uid, indices in by_user.items():
                if (worker := self._worker(uid, now_s, STUCK_IN_RELEASE_S, urgent=True)) is not None:
                    batch = [calls[left[index]] for index in indices[:MOST_CALLS]]
                    if worker.ask(batch, now_s, urgent=True):
                        asked.append((worker, indices))
                    else:
                        busy.append(worker)
            if by_user and not (asked or busy):
                time.sleep(0.001)
            soon_s = min(until_s, now_s + STUCK_IN_RELEASE_S)
            for worker, indices in asked:
                if worker.answers_until(soon_s):
                    for index, answer in zip(indices, worker.answers, strict=False):
                        found[index] = answer
            for worker in busy:
                worker.answers_until(soon_s)
            for index, answer in zip(left, found, strict=True):
                if answer is not _PENDING:
                    answers[index] = answer
            left = [index for index, answer in zip(left, found, strict=True) if answer is _PENDING]
        return answers

    def close(self) -> None:
        """Waits for none of them."""
        for worker in self._of_user.values():
            worker.close()
        self._of_user.clear()

    def _sorted(self, calls: Sequence[Call]) -> tuple[list[Answer], dict[int, list[int]]]:
        """What can be answered here, and the rest by user."""
        answers: list[Answer] = [_PENDING] * len(calls)
        by_user: dict[int, list[int]] = {}
        for index, call in enumerate(calls):
            pid = call[1]
            if (uid := self._uids.get(pid)) is None:
                uid = self._uids[pid] = uid_of(pid) if pid >= 0 else ~pid
            if pid in self.held:
                answers[index] = Held(self.held[pid])
            elif uid < 0:
                answers[index] = SocketGone(f"process {pid} has ended")
            else:
                by_user.setdefault(uid, []).append(index)
        return answers, by_user

    def _worker(self, uid: int, now_s: float, stuck_s: float, urgent: bool = False) -> WorkerProcess | None:
        worker = self._of_user.get(uid)
        if worker is not None:
            worker.hear()
            if worker.is_stuck(now_s, stuck_s):
                self._leave_behind(uid, worker)
                return None  # what it was asked must not be asked of the next one
            if worker.ended:
                self._of_user.pop(uid).close()
            else:
                return worker
        if not urgent and now_s < self._started_s.get(uid, -RESTART_S) + RESTART_S:
            return None
        if len(self._of_user) >= MOST_USERS or sum(uid == of for of, _, _ in self._stuck) >= MOST_STUCK:
            return None
        self._started_s[uid] = now_s
        try:
            worker = self._of_user[uid] = WorkerProcess(now_s, self._forked)
        except OSError:
            return None
        return worker

    def _make_room(self, wanted: Container[int]) -> None:
        """For users whose turn has not come: those that are through need no worker any more."""
        for uid in [uid for uid, worker in self._of_user.items() if uid not in wanted and worker.free]:
            if len(self._of_user) >= MOST_USERS:
                self._of_user.pop(uid).close()

    def _leave_behind(self, uid: int, worker: WorkerProcess) -> None:
        del self._of_user[uid]
        self._started_s.pop(uid, None)
        pid = worker.busy_with
        if pid:
            what = f"process {pid}" if pid > 0 else "a process"
            self.held[pid] = f"{what} of uid {uid} keeps a call on its socket or memory from returning"
        self._stuck.append((uid, pid, worker.process))
        worker.close()

    def _keep_house(self, now_s: float) -> None:
        self._housekeeping_s = now_s + HOUSEKEEPING_S
        self._uids.clear()
        self._stuck = [one for one in self._stuck if one[2].poll() is None]
        self.held = {pid: self.held[pid] for _, pid, _ in self._stuck if pid in self.held}
        for uid, worker in list(self._of_user.items()):
            if now_s - worker.asked_s > IDLE_S and worker.free:
                self._of_user.pop(uid).close()
