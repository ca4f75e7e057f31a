"""Receivers that do not end when they are killed: so many of a user, then none of that user's messages is received.

A stand-in for a close that never returns (test_hanging_file.py has the real one, where the kernel has FUSE): the
receivers here end, and the registrar is told that they have not.
"""

import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from hostd.registration import registrar
from hostd.registration.batch import Batch
from hostd.registration.registrar import Registrar
from tests.hostd.conftest import wait_until
from tests.hostd.registration.conftest import connected

TURN_S = 0.01


class StuckBatch(Batch):
    stuck = True

    def has_ended(self) -> bool:
        return super().has_ended() and not self.stuck


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registrar]:
    monkeypatch.setattr(registrar, "Batch", StuckBatch)
    monkeypatch.setattr(registrar, "RECEIVING_S", 0.05)
    monkeypatch.setattr(registrar, "impatient", nullcontext)  # its signal is the registrar's process's
    hostd, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with hostd, channel:
        made = Registrar(tmp_path / "hostd.sock", channel)
        with made._listener, made._epoll:
            yield made


def test_a_user_has_so_many(desk: Registrar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, registrar.MOST_STUCK + 1):
        assert refusal(desk, tmp_path) == "message"
        wait_until(lambda number=number: desk.turn(TURN_S) or len(desk._stuck) == number)
    wait_until(lambda: all(batch.age_s() > registrar.RECEIVING_S for batch in desk._stuck))
    assert refusal(desk, tmp_path) == "held"
    assert len(desk._stuck) == registrar.MOST_STUCK
    monkeypatch.setattr(StuckBatch, "stuck", False)
    wait_until(lambda: desk.turn(TURN_S) or not desk._stuck)
    assert refusal(desk, tmp_path) == "message", "they have ended: it is received again"
    wait_until(lambda: desk.turn(TURN_S) or not desk._batches)


def refusal(desk: Registrar, directory: Path) -> str:
    """Why a message that is none is refused."""
    before = sum(desk._refused.values())
    with connected(directory / "hostd.sock") as one:
        one.send(b"nonsense")
        wait_until(lambda: desk.turn(TURN_S) or sum(desk._refused.values()) > before)
    return desk._named[-1][2]
