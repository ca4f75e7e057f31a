"""Real errors, each provoked once: its kind is known where it arises, whatever its text."""

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hostd.enforce.enforcer import Enforcer
from hostd.enforce.errors import EnforcementError, ErrorCounts, ErrorKind, kind_of
from hostd.enforce.htb import HtbBackend
from hostd.enforce.htb_device import FIRST_MINOR, MAJOR
from hostd.enforce.pacing import PacingBackend
from hostd.enforce.settings import EnforcementSettings
from hostd.kernel.htb_class import RTM_DELTCLASS, TCMSG
from hostd.kernel.netlink import Message, Netlink
from hostd.kernel.pidfd import SocketGone, duplicate_socket
from hostd.kernel.qdisc_tree import delete_root
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo import SysctlUndo
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import Limit
from tests.hostd.conftest import FLOW, Wire

pytestmark = pytest.mark.root

NOBODY = 65534
LIMIT = Limit(FLOW, 5e7, 5e7)


def kinds(errors: list[EnforcementError]) -> set[str]:
    return {error.kind.value for error in errors}


class Held:
    """A flow that htb holds on eth0."""

    def __init__(self, wire: Wire, undo_log: UndoLog) -> None:
        self.undo_log, self.ifindex = undo_log, wire.here.index_of("eth0")
        wire.sink()
        self.sockets = wire.send(1).sockets(1)

    def attach(self) -> HtbBackend:
        backend = HtbBackend(self.undo_log, lambda device: 1e9)
        assert backend.attach(FLOW, self.sockets) == []
        return backend


@pytest.fixture
def undo_log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "lease.json")


@pytest.fixture
def held(wire: Wire, undo_log: UndoLog) -> Iterator[Held]:
    made = Held(wire, undo_log)
    with wire.here.enter():
        yield made


def test_kinds_are_what_dashboards_know() -> None:
    known = {"foreign_qdisc", "restore", "gone", "namespace", "device", "permission", "lease", "kernel", "other"}
    known |= {"held", "late", "evaded"}
    assert {kind.value for kind in ErrorKind} == known


@pytest.mark.parametrize(
    ("changed", "kind"),
    [({"pid": 2**22 - 1}, "gone"), ({"namespace": 1}, "namespace"), ({"local": "10.97.0.77"}, "device")],
)
def test_a_socket_out_of_reach(held: Held, changed: dict[str, object], kind: str) -> None:
    backend = held.attach()
    errors = backend.attach(FLOW, [replace(held.sockets[0], **changed)])
    assert kinds(errors) == {kind} and {error.flow for error in errors} == {FLOW}
    backend.close()


def test_every_way_a_socket_can_have_gone() -> None:
    with Path(os.devnull).open() as file, socket.socket() as other:
        for pid, fd, cookie in (
            (2**22 - 1, 0, None),
            (os.getpid(), 10**6, None),
            (os.getpid(), file.fileno(), None),
            (os.getpid(), other.fileno(), 1),
        ):
            with pytest.raises(SocketGone) as gone:
                duplicate_socket(pid, fd, cookie)
            assert kind_of(gone.value) is ErrorKind.GONE


def test_no_right_to_a_process(undo_log: UndoLog) -> None:
    backend = PacingBackend(undo_log, 1e9)
    with socket.socket() as own:
        one = DataSocket(os.getppid(), own.fileno(), 1, "127.0.0.1", "127.0.0.1", 0, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            [error] = backend._options.set([one], (socket.SOL_SOCKET, socket.SO_PRIORITY), bytes(4))
        finally:
            os.setresuid(0, 0, 0)
    assert error.kind is ErrorKind.PERMISSION
    backend.close()


def test_a_class_and_a_root_that_another_program_deleted(held: Held) -> None:
    backend = held.attach()
    with Netlink() as netlink:
        netlink.ask(Message(RTM_DELTCLASS, 0, TCMSG.pack(0, held.ifindex, MAJOR | FIRST_MINOR, 0, 0)))
        assert kinds(backend.apply([LIMIT])) == {"kernel"}
        assert backend.apply([LIMIT]) == []
        netlink.ask(delete_root(held.ifindex, MAJOR))
        assert kinds(backend.apply([LIMIT])) == {"kernel", "foreign_qdisc"}
    backend.close()


def test_a_qdisc_that_hostd_did_not_set(wire: Wire, undo_log: UndoLog) -> None:
    wire.here.netlink.tc("add", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=1000)
    held = Held(wire, undo_log)
    with wire.here.enter():
        backend = HtbBackend(undo_log, lambda device: 1e9)
        assert kinds(backend.attach(FLOW, held.sockets)) == {"foreign_qdisc"}
        backend.close()


def test_an_undo_log_that_cannot_be_written(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = held.attach()
    backend.detach(FLOW)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("hostd.safety.undo_log.os.write", full)
    errors = backend.attach(FLOW, held.sockets)
    assert kinds(errors) == {"lease"}
    monkeypatch.undo()
    backend.close()


def test_what_cannot_be_restored(wire: Wire, tmp_path: Path) -> None:
    settings = EnforcementSettings(True, tmp_path / "lease.json", 1e9, "pacing")
    with wire.here.enter():
        UndoLog(settings.undo_log_path).record({"stubborn": SysctlUndo("/etc/passwd", "x")})
        with closing(Enforcer(settings, 1_000_000_000)) as enforcer:
            assert enforcer.errors.by_kind == {ErrorKind.RESTORE: 1}, "what a predecessor left behind"
    assert enforcer.errors.by_kind.keys() == {ErrorKind.RESTORE}
    assert enforcer.errors.by_kind[ErrorKind.RESTORE] > 1, "nor at the end"


def test_when_an_error_was_is_the_wall_clocks_and_how_long_ago_the_others() -> None:
    """The wall clock may be set in between, forward or back."""
    now_s = 5.0
    errors = ErrorCounts(lambda: now_s)
    errors.add([EnforcementError(ErrorKind.RESTORE, "eth0: busy", FLOW)])
    assert errors.spans["eth0: busy"].last_s == pytest.approx(time.time(), abs=60.0)
    assert errors.lately(FLOW.job, 1.0) == {ErrorKind.RESTORE: "eth0: busy"}
    now_s += 1.5
    assert errors.lately(FLOW.job, 1.0) == {}
