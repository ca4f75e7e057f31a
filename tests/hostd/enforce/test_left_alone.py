"""A flow whose limit is lifted is in no class, in the real kernel, until it has one again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hostd.enforce import socket_options
from hostd.enforce.errors import ErrorKind
from hostd.enforce.htb import HtbBackend
from hostd.enforce.htb_device import FIRST_MINOR, LAST_MINOR
from hostd.enforce.socket_options import SO_PRIORITY
from hostd.kernel.calls import Call, NotAnswered, get_option, perform
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.units import UNLIMITED
from tests.hostd.conftest import FLOW, Wire

pytestmark = pytest.mark.root

LINK_BPS = 200e6
LIMITED, LIFTED = Limit(FLOW, LINK_BPS / 4, LINK_BPS / 2), Limit(FLOW, UNLIMITED, UNLIMITED)


def is_in_a_class(one: DataSocket) -> bool:
    minor = int.from_bytes(get_option(one, *SO_PRIORITY, 4), "little") & 0xFFFF
    return FIRST_MINOR <= minor <= LAST_MINOR


def test_a_flow_steps_out_of_its_class_and_in_again(wire: Wire, tmp_path: Path) -> None:
    wire.sink()
    job = wire.send()
    sockets = job.sockets()
    before = wire.state(sockets)
    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        assert backend.attach(FLOW, sockets) == []
        assert is_in_a_class(sockets[0]), "from its first packet on, before anything is decided"
        assert backend.apply([LIMITED]) == []
        job.comes_to(sockets, 0.0, 0.6 * LINK_BPS)
        assert backend.apply([LIFTED]) == []
        assert not is_in_a_class(sockets[0])
        assert backend.refresh() == [], "nothing is put back"
        assert not is_in_a_class(sockets[0]) and backend.read_back() == {FLOW: LIFTED}
        job.comes_to(sockets, 2 * LINK_BPS)  # the cable carries more than it is said to: no class holds it back
        assert backend.apply([LIMITED]) == []
        assert is_in_a_class(sockets[0])
        job.comes_to(sockets, 0.0, 0.6 * LINK_BPS)
        assert backend.close() == []
    assert wire.state(sockets) == before


def test_a_socket_that_comes_while_its_flow_is_left_alone_is_in_no_class_either(wire: Wire, tmp_path: Path) -> None:
    wire.sink()
    sockets = wire.send(2).sockets(2)
    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        for step in (backend.attach(FLOW, sockets[:1]), backend.apply([LIMITED]), backend.apply([LIFTED])):
            assert step == []
        assert backend.attach(FLOW, sockets) == []
        assert not any(map(is_in_a_class, sockets))
        assert backend.apply([LIMITED]) == []
        assert all(map(is_in_a_class, sockets))
        assert backend.apply([LIFTED]) == [] and backend.detach(FLOW) == []
        assert not any(map(is_in_a_class, sockets))
        assert backend.close() == []


def test_what_is_set_again_after_a_lost_lease_is_left_alone_again(wire: Wire, tmp_path: Path) -> None:
    """Another backend hears the limits in force, and no others before."""
    wire.sink()
    sockets = wire.send().sockets()
    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        assert backend.attach(FLOW, sockets) == [] and is_in_a_class(sockets[0])
        assert backend.apply([LIFTED]) == [] and not is_in_a_class(sockets[0])
        assert backend.refresh() == [] and not is_in_a_class(sockets[0])
        assert backend.close() == []


def test_an_answer_that_comes_late_leaves_nothing_as_it_should_not_be(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been done, or not: that is done again."""
    wire.sink()
    sockets = wire.send().sockets()

    def late(calls: Sequence[Call], *patience: float) -> list[object]:
        return [
            NotAnswered("late") if call[0] == "set" else answer
            for call, answer in zip(calls, perform(calls, *patience), strict=True)
        ]

    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: LINK_BPS)
        for step in (backend.attach(FLOW, sockets), backend.apply([LIMITED]), backend.apply([LIFTED])):
            assert step == []
        for asked, then in ((LIMITED, LIFTED), (LIFTED, LIMITED)):
            assert backend.apply([then]) == []
            with monkeypatch.context() as patched:
                patched.setattr(socket_options, "perform", late)
                assert {error.kind for error in backend.apply([asked])} == {ErrorKind.LATE}
            assert backend.apply([then]) == [] == backend.refresh()
            assert is_in_a_class(sockets[0]) == (then is LIMITED)
        with monkeypatch.context() as patched:
            patched.setattr(socket_options, "perform", lambda calls, *_: [NotAnswered("late") for _ in calls])
            assert backend.apply([LIFTED]) and is_in_a_class(sockets[0])
        assert backend.refresh() == [] and not is_in_a_class(sockets[0])
        assert backend.close() == []
