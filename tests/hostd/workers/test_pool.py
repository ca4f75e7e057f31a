"""Calls that do not return: for other processes and users everything goes on, and nothing stays behind."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.kernel.calls import EVERY_USER, Answer, Call, Held, NotAnswered
from hostd.kernel.pidfd import SocketGone
from hostd.workers import pool
from hostd.workers.pool import STUCK_S, Workers
from nccl_shim.segment.liveness import start_ticks
from tests.hostd.conftest import next_line, wait_until
from tests.hostd.hostile import HostileJob, Jobs, jobs
from tests.hostd.missing_page import DEVICE

__all__ = ["jobs"]  # a fixture

pytestmark = [pytest.mark.root, pytest.mark.skipif(not DEVICE.exists(), reason="needs userfaultfd")]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


def ask(workers: Workers, job: HostileJob) -> Answer:
    [answer] = workers.perform([job.call])
    return answer


def answers(workers: Workers, job: HostileJob) -> bool:
    return not isinstance(ask(workers, job), Exception)


def test_a_call_is_answered_as_if_it_was_made_here(jobs: Jobs, workers: Workers) -> None:
    job = jobs.start()
    wait_until(lambda: answers(workers, job))
    kind, pid, fd, cookie = job.call
    gone, sent, option = workers.perform_all(
        [(kind, pid, fd, cookie + 1), job.call, ("get", pid, fd, cookie, socket.SOL_SOCKET, socket.SO_LINGER, 8)], 5.0
    )
    assert isinstance(gone, SocketGone) and "another socket" in str(gone)
    assert len(sent) == 5 and option[4] == 60
    [refused] = workers.perform_all([("set", pid, fd, cookie, socket.SOL_SOCKET, 9999, b"0000")], 5.0)
    assert isinstance(refused, OSError) and not isinstance(refused, NotAnswered)


def until_answered(workers: Workers, call: Call) -> Answer:
    """However late."""
    answers: list[Answer] = []

    def answered() -> bool:
        answers[:] = workers.perform([call])
        return not isinstance(answers[0], NotAnswered)

    wait_until(answered)
    return answers[0]


def test_a_file_comes_as_a_descriptor(workers: Workers, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+") as file:
        info, own = os.fstat(file.fileno()), (os.getpid(), start_ticks(os.getpid()))
        descriptor = until_answered(workers, ("open", ~0, *own, info.st_dev, info.st_ino))
        assert os.path.samestat(os.fstat(descriptor), info) and not os.get_inheritable(descriptor)
        os.close(descriptor)
        refused = until_answered(workers, ("open", ~0, *own, info.st_dev, info.st_ino + 1))
        assert isinstance(refused, FileNotFoundError)
        before = os.listdir("/proc/self/fd")  # noqa: PTH208
        for _ in range(5):  # late, and taken by no caller
            workers._of_user[0].ask([("open", ~0, *own, info.st_dev, info.st_ino)], time.monotonic(), urgent=True)
            time.sleep(0.05)
            workers._of_user[0].hear()
        workers.close()
        assert len(os.listdir("/proc/self/fd")) <= len(before)  # noqa: PTH208


def test_processes_are_searched_for(workers: Workers) -> None:
    found = until_answered(workers, ("search", EVERY_USER, (("a", None, None, os.getpid()),), (), ()))
    assert found == {"a": [os.getpid()]}


def test_a_process_that_ended_needs_no_worker(jobs: Jobs, workers: Workers) -> None:
    job = jobs.start()
    job.end()
    assert isinstance(ask(workers, job), SocketGone) and not workers._of_user


def test_a_kept_lock_costs_its_own_process_only(jobs: Jobs, workers: Workers) -> None:
    hostile, other = jobs.start(), jobs.start()
    wait_until(lambda: answers(workers, hostile) and answers(workers, other))
    hostile.does("hold")
    longest_s, begun_s = 0.0, time.monotonic()
    while not isinstance(ask(workers, hostile), Held):
        asked_s = time.monotonic()
        ask(workers, other)
        longest_s = max(longest_s, time.monotonic() - asked_s)
        assert asked_s < begun_s + 10.0
        time.sleep(0.002)
    assert longest_s < STUCK_S / 2, "asking waits for a few milliseconds at most"
    wait_until(lambda: answers(workers, other))
    assert str(hostile.pid) in str(ask(workers, hostile)) and workers.held.keys() == {hostile.pid}
    hostile.does("let go")
    wait_until(lambda: answers(workers, hostile) and answers(workers, other))
    assert not workers.held and not workers._stuck, "the worker that was left behind has died"


def test_all_that_can_be_reached_is_in_one_go(jobs: Jobs, workers: Workers) -> None:
    """As a release does: what one process keeps from returning is named, in time, and all others are asked."""
    hostile, other = jobs.start(), jobs.start()
    hostile.does("hold")
    begun_s = time.monotonic()
    first, second, third = workers.perform_all([other.call, hostile.call, other.call], 3.0)
    assert time.monotonic() - begun_s < 3.5
    assert len(first) == len(third) == 5
    assert isinstance(second, Held) and str(hostile.pid) in str(second)


def test_a_worker_that_closes_a_lingering_socket_last_is_left_behind(jobs: Jobs, workers: Workers) -> None:
    lingering, other = jobs.start(), jobs.start()
    wait_until(lambda: answers(workers, lingering))
    lingering.does("hold")
    assert isinstance(ask(workers, lingering), NotAnswered)  # the worker has a duplicate, and waits
    [worker] = workers._of_user.values()
    wait_until(lambda: worker.busy_with == lingering.pid)
    lingering.does("close")
    lingering.does("let go")
    time.sleep(0.1)
    assert worker.busy_with == lingering.pid, "it lingers"
    assert wait_until(lambda: answers(workers, other)) < 4 * STUCK_S
    wait_until(lambda: worker.process.poll() is not None)
    wait_until(lambda: isinstance(ask(workers, lingering), SocketGone))


def test_no_user_has_more_than_a_few_stuck_workers(
    jobs: Jobs, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "STUCK_S", 0.05)
    monkeypatch.setattr(pool, "MOST_STUCK", 2)
    hostile, other = [jobs.start() for _ in range(2)], jobs.start()
    for job in hostile:
        wait_until(lambda job=job: answers(workers, job))
        job.does("hold")
        wait_until(lambda job=job: isinstance(ask(workers, job), Held))
    assert isinstance(ask(workers, other), NotAnswered) and len(workers._stuck) == 2 and not workers._of_user
    for job in hostile:
        job.end()
    wait_until(lambda: answers(workers, other))


def test_a_crashed_worker_is_replaced(jobs: Jobs, workers: Workers) -> None:
    job = jobs.start()
    wait_until(lambda: answers(workers, job))
    workers._of_user[os.getuid()].process.kill()
    workers._of_user[os.getuid()].process.wait()
    assert isinstance(ask(workers, job), NotAnswered)
    wait_until(lambda: answers(workers, job))


def test_workers_end_with_the_process_that_has_them(jobs: Jobs) -> None:
    job = jobs.start()
    code = (
        "import sys, time\nfrom hostd.workers.pool import Workers\nworkers = Workers()\n"
        f"while isinstance(workers.perform([{job.call!r}])[0], Exception): time.sleep(0.01)\n"
        "print(workers._of_user[0].process.pid, flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hostd:
        worker = int(next_line(hostd))
        assert Path(f"/proc/{worker}").exists()
        hostd.kill()
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


def test_what_is_given_back_to_more_users_than_there_are_workers_is_given_back_to_all(
    jobs: Jobs, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with subordinate users has thousands of them."""
    monkeypatch.setattr(pool, "MOST_USERS", 1)
    every = [jobs.start(), *(jobs.start(uid=uid) for uid in (65533, 65532))]
    answers = workers.perform_all([job.call for job in every], 10.0)
    assert not any(isinstance(answer, Exception) for answer in answers)
