"""Sockets that count for several: our control while they take turns beside cross traffic, then their own."""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.congestion import libbpf
from hostd.congestion.libbpf import BpfError
from hostd.congestion.weighted import NAME, Weighted
from hostd.enforce.selection import make_weigher
from hostd.enforce.settings import EnforcementSettings
from hostd.enforce.socket_options import SO_PRIORITY, SocketOptions
from hostd.enforce.transport import TCP_CONGESTION, Transport
from hostd.enforce.weighing import weigher as module
from hostd.enforce.weighing.weigher import Unweighed, Weigher, probe_weights
from hostd.kernel import calls
from hostd.kernel.pidfd import cookie_of
from hostd.kernel.sockets import DataSocket, own_namespace
from hostd.kernel.tcp_info import TcpCounters
from hostd.safety.undo_log import UndoLog
from hostd.workers.pool import Workers
from paceline.flowcore.detect.losses import Losses
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from tests.hostd.conftest import FLOW, wait_until

pytestmark = pytest.mark.root

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def known(one: socket.socket) -> DataSocket:
    local, remote = one.getsockname(), one.getpeername()
    return DataSocket(os.getpid(), one.fileno(), cookie_of(one), own_namespace(), *local, *remote)


def control_of(one: socket.socket) -> str:
    return one.getsockopt(*TCP_CONGESTION, 16).rstrip(b"\0").decode()


def window(one: socket.socket) -> int:
    return int(struct.unpack_from("=I", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8 + 18 * 4)[0])


def standing_for(flows: float) -> list[Limit]:
    return [Limit(FLOW, 1e9, 1e9, flows)]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        one = stack.enter_context(socket.create_connection(listener.getsockname()))
        one.setsockopt(*TCP_CONGESTION, b"reno")
        yield one, stack.enter_context(listener.accept()[0])


@pytest.fixture
def undo_log(tmp_path: Path) -> UndoLog:
    return UndoLog(tmp_path / "lease.json")


@pytest.fixture
def weigher(undo_log: UndoLog) -> Iterator[Weigher]:
    made = Weigher(undo_log)
    yield made
    undo_log.close()
    made.close()


def test_a_socket_has_the_control_from_its_first_turn_beside_cross_traffic_until_it_leaves(
    weigher: Weigher, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, _ = pair
    assert weigher.attach(FLOW, [known(one)]) == []
    assert weigher.apply(standing_for(1.0)) == []
    assert control_of(one) == "reno", "it takes turns as any"
    assert weigher.apply(standing_for(3.0)) == []
    assert control_of(one).startswith(NAME)
    assert weigher.apply(standing_for(1.0)) == [] == weigher.refresh()
    assert control_of(one).startswith(NAME), "its next turn is soon"
    assert weigher.detach(FLOW) == []
    assert control_of(one) == "reno"


def test_a_weight_arrives_in_the_kernel(weigher: Weigher, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    weigher.attach(FLOW, [known(one)])
    weigher.apply(standing_for(2.0))
    before = window(one)
    weigher.apply(standing_for(8.0))
    one.sendall(bytes(1000))
    other.recv(1000)
    wait_until(lambda: window(one) >= 4 * before)  # with the next acknowledgement


def test_between_two_turns_a_weight_stays_and_costs_nothing(
    weigher: Weigher, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a second: then it has none."""
    made: list[calls.Call] = []

    def counting(asked: Sequence[calls.Call], wait_s: float) -> list[calls.Answer]:
        made.extend(asked)
        return calls.perform(asked, wait_s)

    one, _ = pair
    weigher.attach(FLOW, [known(one)])
    weigher.apply(standing_for(3.0))
    monkeypatch.setattr(module, "perform", counting)
    waits = [Limit(FLOW, FLOOR_BPS, 1e9)]
    for turn in (waits, standing_for(3.0), waits):
        weigher.apply(turn)
    assert made == []
    weigher.refresh()
    assert len(made) == 1
    weigher.apply(standing_for(3.0))
    assert len(made) == 2
    weigher.apply(standing_for(1.0))
    assert len(made) == 3, "nobody waits any more, and it sends"
    weigher.apply(standing_for(3.0))
    weigher.apply(waits)
    weigher.apply(standing_for(1.0))
    assert len(made) == 5, "nobody waits for this turn"


def test_who_takes_no_such_turns_any_more_has_its_control_again(
    weigher: Weigher, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    weigher.attach(FLOW, [known(one)])
    weigher.apply(standing_for(3.0))
    monkeypatch.setattr(module, "GIVEN_BACK_S", 0.0)
    weigher.refresh()
    assert control_of(one).startswith(NAME)
    weigher.apply(standing_for(1.0))
    assert weigher.refresh() == []
    assert control_of(one) == "reno"
    weigher.apply(standing_for(3.0))
    assert control_of(one).startswith(NAME)


def test_a_socket_that_comes_or_goes_in_mid_turn(weigher: Weigher, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    weigher.apply(standing_for(3.0))
    weigher.attach(FLOW, [known(one)])
    assert control_of(one).startswith(NAME)
    weigher.attach(FLOW, [known(other)])
    assert (control_of(one), control_of(other).startswith(NAME)) == ("reno", True)
    gone = known(one)
    one.close()
    [error] = weigher.attach(FLOW, [known(other), gone])
    assert "descriptor" in error.reason


def test_a_release_gives_the_control_back(
    weigher: Weigher, undo_log: UndoLog, pair: tuple[socket.socket, socket.socket]
) -> None:
    """As the guardian does, after hostd was killed."""
    one, _ = pair
    weigher.attach(FLOW, [known(one)])
    weigher.apply(standing_for(3.0))
    assert undo_log.close() == {}
    assert control_of(one) == "reno"


def test_a_worker_makes_the_calls(weigher: Weigher, pair: tuple[socket.socket, socket.socket]) -> None:
    one, _ = pair
    workers = Workers(forked=True)
    with calls.made_by(workers):
        weigher.attach(FLOW, [known(one)])

        def weighed() -> bool:
            weigher.apply(standing_for(3.0))
            return not weigher.refresh()

        wait_until(weighed)
        assert control_of(one).startswith(NAME)
        weigher.detach(FLOW)
    workers.close()


@pytest.mark.parametrize("between_turns", [False, True])
def test_a_socket_known_by_another_descriptor_has_its_own_control_in_the_end(
    weigher: Weigher, undo_log: UndoLog, pair: tuple[socket.socket, socket.socket], between_turns: bool
) -> None:
    one, _ = pair
    weigher.attach(FLOW, [known(one)])
    weigher.apply(standing_for(3.0))
    if between_turns:
        weigher.apply([Limit(FLOW, FLOOR_BPS, 1e9)])
    with one.dup() as copy:
        weigher.attach(FLOW, [known(copy)])
        assert control_of(one).startswith(NAME)
        assert weigher.detach(FLOW) == [] and control_of(one) == "reno"
        assert not undo_log.close()


def test_two_on_one_kernel_have_controls_of_different_names() -> None:
    with Weighted("paceline_one"), Weighted("paceline_two"):
        assert {"paceline_one", "paceline_two"} <= {*AVAILABLE.read_text().split()}
    with pytest.raises(BpfError, match=r"^the control paceline cannot be called a_name_of_16_byt$"):
        Weighted("a_name_of_16_byt")


@pytest.mark.parametrize(
    ("backend", "weighing", "library", "why"),
    [
        ("htb", False, libbpf.LIBRARY, 'background = "yield"'),
        ("gate", True, libbpf.LIBRARY, "gate controls no sockets"),
        ("htb", True, "libno.so", "libno.so is missing"),
    ],
)
def test_why_there_is_none(
    backend: str, weighing: bool, library: str, why: str, undo_log: UndoLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libbpf, "LIBRARY", library)
    libbpf._libbpf.cache_clear()
    settings = EnforcementSettings(True, undo_log.path, 1e9, weighing=weighing)
    made = make_weigher(backend, settings, undo_log)
    assert isinstance(made, Unweighed) and made.why.startswith(why)
    found = probe_weights()
    assert found.usable == (library == libbpf.LIBRARY != "libno.so")
    assert found.usable or found.reason.startswith(why)
    libbpf._libbpf.cache_clear()


@pytest.mark.parametrize("first", ["weight", "loss"])
def test_a_socket_on_a_lossy_path_beside_cross_traffic_has_its_own_control_in_the_end(
    weigher: Weigher,
    undo_log: UndoLog,
    pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """Both change it, and each took what the other had set for the socket's own."""
    one, lossy = pair[0], True
    monkeypatch.setattr(Losses, "look", lambda *_: lossy)
    options = SocketOptions(undo_log, SO_PRIORITY, Transport(min_rto_ms=4.0))
    assert options.record([known(one)], by_itself=True) == ([known(one)], [])
    read = {known(one).cookie: TcpCounters.of(one)}
    steps = [lambda: weigher.apply(standing_for(3.0)), lambda: options.watch_losses(read)]
    weigher.attach(FLOW, [known(one)])
    for step in steps if first == "weight" else reversed(steps):
        assert step() == []
    assert control_of(one).startswith(NAME if first == "weight" else "bbr"), "who came first has it"
    lossy = False
    assert options.watch_losses(read) == [] == weigher.detach(FLOW) == options.restore([known(one)])
    assert control_of(one) == "reno" and not undo_log.take_back_owed()
