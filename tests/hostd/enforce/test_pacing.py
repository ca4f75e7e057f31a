"""pacing: borrowing computed for sockets, and the sysctl of the whole namespace."""

import math
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.testbed.namespace import Namespace
from hostd.enforce.pacing import PACING_FLOOR_BPS, TSO_RTT_LOG, PacingBackend, borrowing
from hostd.enforce.socket_options import SO_MAX_PACING_RATE
from hostd.kernel.pidfd import cookie_of
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED

pytestmark = pytest.mark.root

LINK_BPS = 1e9
RATES = st.floats(FLOOR_BPS * 1.01, LINK_BPS)
IDLE = Limit(FlowId("idle", "h0", "h1", Role.RING), FLOOR_BPS, LINK_BPS)  # as policies leave a flow that is through


def limit(rate_bps: float, ceiling_bps: float, job: str = "a") -> Limit:
    return Limit(FlowId(job, "h0", "h1", Role.RING), rate_bps, ceiling_bps)


@given(st.lists(st.tuples(RATES, RATES), max_size=6))
def test_guarantees_are_kept_and_the_link_is_not_exceeded(pairs: list[tuple[float, float]]) -> None:
    limits = [limit(min(pair), max(pair)) for pair in pairs]
    rates = borrowing(limits, LINK_BPS)
    for one, rate in zip(limits, rates, strict=True):
        assert one.rate_bps * (1 - 1e-9) <= rate <= one.ceiling_bps * (1 + 1e-9)
    promised = sum(one.rate_bps for one in limits)
    assert sum(rates) <= max(promised, LINK_BPS) * (1 + 1e-9)
    # Work-conserving: the link is full, or every flow is at the ceiling.
    at_ceiling = all(rate >= one.ceiling_bps * (1 - 1e-9) for one, rate in zip(limits, rates, strict=True))
    assert at_ceiling or sum(rates) >= LINK_BPS * (1 - 1e-9)
    # Nothing is set aside for flows that were guaranteed nothing, and what is left is open to each of them.
    *rest, idle = borrowing([*limits, *[IDLE] * 3], LINK_BPS)
    assert rest[: len(limits)] == rates
    assert idle == max(LINK_BPS - promised, FLOOR_BPS)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([limit(1e6, LINK_BPS)], [LINK_BPS]),  # alone: all that is left
        ([limit(999e6, LINK_BPS), limit(1e6, LINK_BPS)], [LINK_BPS, 1e6]),  # hand-over: next to nothing is left
        ([limit(0, LINK_BPS), limit(1e6, LINK_BPS)], [LINK_BPS, LINK_BPS]),  # the idle one takes no share
        ([limit(UNLIMITED, UNLIMITED), limit(1e6, 2e6)], [UNLIMITED, 2e6]),
        ([limit(2e6, 100e6), limit(2e6, LINK_BPS)], [100e6, 900e6]),
        ([IDLE] * 10, [LINK_BPS] * 10),  # whichever starts has the link, until all know
        ([IDLE, limit(600e6, LINK_BPS)], [400e6, LINK_BPS]),
    ],
)
def test_which_flow_gets_what(limits: list[Limit], expected: list[float]) -> None:
    assert borrowing(limits, LINK_BPS) == pytest.approx(expected)


def test_without_a_known_link_every_flow_goes_up_to_the_ceiling() -> None:
    assert borrowing([limit(1e6, 2e6), limit(3e6, 5e6)], math.inf) == [2e6, 5e6]


@pytest.fixture
def connections() -> Iterator[list[socket.socket]]:
    """Many connections of this process."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        made = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(64)]
        for _ in made:
            stack.enter_context(listener.accept()[0])
        yield made


def handle(one: socket.socket) -> DataSocket:
    return DataSocket(os.getpid(), one.fileno(), cookie_of(one), "127.0.0.1", "127.0.0.1", 0, 0)


def test_no_socket_is_so_slow_that_its_debt_outlives_the_limit(
    tmp_path: Path, connections: list[socket.socket]
) -> None:
    backend = PacingBackend(UndoLog(tmp_path / "lease.json"), LINK_BPS)
    for count in (4, 64):
        backend.attach(IDLE.flow, [handle(one) for one in connections[:count]])
        assert backend.apply([Limit(IDLE.flow, FLOOR_BPS, FLOOR_BPS)]) == []
        held_bps = max(PACING_FLOOR_BPS, count * FLOOR_BPS)
        assert backend.read_back()[IDLE.flow].rate_bps == pytest.approx(held_bps, rel=1e-3)
    backend.close()


def test_what_could_not_be_set_is_set_the_next_time(tmp_path: Path, connections: list[socket.socket]) -> None:
    one, other = connections[:2]
    backend = PacingBackend(UndoLog(tmp_path / "lease.json"), LINK_BPS)
    backend.attach(IDLE.flow, [handle(one)])
    away = one.dup()
    os.dup2(other.fileno(), one.fileno())  # out of reach for a moment
    assert len(backend.apply([Limit(IDLE.flow, 5e7, 5e7)])) == 1
    os.dup2(away.fileno(), one.fileno())
    away.close()
    assert backend.apply([Limit(IDLE.flow, 5e7, 5e7)]) == []
    assert backend.read_back()[IDLE.flow].rate_bps == pytest.approx(5e7, rel=1e-3)
    backend.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_the_sysctl_is_set_only_if_allowed_and_comes_back(tmp_path: Path, allowed: bool) -> None:
    with Namespace("one") as one, one.enter():
        TSO_RTT_LOG.write_text("7")
        backend = PacingBackend(UndoLog(tmp_path / "lease.json"), small_tso_bursts=allowed)
        assert TSO_RTT_LOG.read_text() == ("0\n" if allowed else "7\n")
        assert backend.close() == []
        assert TSO_RTT_LOG.read_text() == "7\n"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_socket_goes_from_one_flow_to_another_and_is_as_it_was_in_the_end(
    tmp_path: Path, connections: list[socket.socket], order: tuple[int, int]
) -> None:
    """A reload corrects whose address it leads to; which flow hears of it first is chance."""
    one, original = connections[0], connections[0].getsockopt(*SO_MAX_PACING_RATE, 8)
    undo_log = UndoLog(tmp_path / "lease.json")
    backend = PacingBackend(undo_log, LINK_BPS)
    was, now = IDLE.flow, IDLE.flow._replace(target="another")
    for flow in (was, now):
        backend.attach(flow, [handle(one)] if flow == was else [])
        backend.apply([Limit(flow, 5e7, 5e7)])
    changes = [(was, []), (now, [handle(one)])]
    for index in order:
        assert backend.attach(*changes[index]) == []
    assert one.getsockopt(*SO_MAX_PACING_RATE, 8) != original
    assert backend.detach(now) == []
    assert one.getsockopt(*SO_MAX_PACING_RATE, 8) == original
    assert backend.close() == []


def test_flows_borrow_on_the_nic_that_they_leave_through(tmp_path: Path, connections: list[socket.socket]) -> None:
    backend = PacingBackend(UndoLog(tmp_path / "lease.json"), LINK_BPS)
    full, on_the_rail = IDLE.flow, IDLE.flow._replace(target=f"{IDLE.flow.target}@r1")
    for flow, one in zip((full, on_the_rail), connections, strict=False):
        backend.attach(flow, [handle(one)])
    backend.apply([Limit(full, LINK_BPS, LINK_BPS), Limit(on_the_rail, FLOOR_BPS, LINK_BPS)])
    assert backend.read_back()[on_the_rail].rate_bps == pytest.approx(LINK_BPS, rel=1e-3)
    backend.close()
