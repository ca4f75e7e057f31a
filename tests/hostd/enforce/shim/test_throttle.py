"""Rates on the pages of processes: what their flows may send, divided among those that send."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.enforce.errors import ErrorKind
from hostd.enforce.shim.throttle import ThrottleBackend
from hostd.kernel.sockets import DataSocket
from hostd.pages.pages import Pages
from hostd.registration.registrations import Registered
from nccl_shim.page.decision import Answer
from nccl_shim.page.layout import State, peer_bytes
from nccl_shim.page.reader import PageReader
from nccl_shim.segment.liveness import start_ticks
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED

NIC = 1e9
A, B = (FlowId(job, "h0", "h1", Role.RING) for job in "ab")
PAYLOAD = 1448 / 1514
ONE, OTHER = os.getpid(), os.getppid()


def socket(pid: int, remote: str = "10.0.0.2", cookie: int = 1) -> DataSocket:
    return DataSocket(pid, 5, cookie, "10.0.0.1", remote, 4000, 1)


class Throttle:
    def __init__(self, directory: Path) -> None:
        self.pages = Pages(directory, 1_000_000_000)
        for pid in (ONE, OTHER):
            self.pages.note(Registered(str(pid), pid, start_ticks(pid) or 0, os.getuid(), -1))
        self.backend = ThrottleBackend(self.pages, NIC)

    def says(self, pid: int, address: str = "10.0.0.2") -> Answer:
        reader = PageReader(self.pages.directory / f"{pid}-{start_ticks(pid)}.page")
        try:
            return reader.look(peer_bytes(address))
        finally:
            reader.close()

    def bps(self, pid: int, address: str = "10.0.0.2") -> float:
        """On the wire."""
        said = self.says(pid, address)
        assert said.state is State.RATE
        return 8 * said.rate / PAYLOAD


@pytest.fixture
def throttle(tmp_path: Path) -> Iterator[Throttle]:
    made = Throttle(tmp_path / "pages")
    yield made
    made.backend.close()
    made.pages.close()


def test_a_flow_has_its_guarantee_and_another_what_is_left(throttle: Throttle) -> None:
    throttle.backend.attach(A, (socket(ONE), socket(ONE, cookie=2)))
    throttle.backend.attach(B, (socket(OTHER),))
    assert throttle.says(ONE).state is State.OPEN
    throttle.backend.apply([Limit(A, 0.7 * NIC, 0.7 * NIC), Limit(B, FLOOR_BPS, NIC)])
    assert throttle.bps(ONE) == pytest.approx(0.7 * NIC) and throttle.bps(OTHER) == pytest.approx(0.3 * NIC)
    assert throttle.says(ONE, "10.0.0.9").state is State.OPEN, "a peer of no flow"
    held = throttle.backend.read_back()
    assert held[A].rate_bps == pytest.approx(0.7 * NIC) and held[B].rate_bps == pytest.approx(0.3 * NIC)
    throttle.backend.apply([Limit(A, UNLIMITED, UNLIMITED)])
    assert throttle.says(ONE).state is State.OPEN and throttle.bps(OTHER) == pytest.approx(NIC)
    throttle.backend.detach(B)
    assert throttle.says(OTHER).state is State.OPEN


def test_processes_and_addresses_of_a_flow_share_its_rate(throttle: Throttle) -> None:
    throttle.backend.attach(A, (socket(ONE), socket(ONE, "10.1.0.2", 2), socket(OTHER, cookie=3)))
    throttle.backend.apply([Limit(A, 0.6 * NIC, 0.6 * NIC)])
    assert throttle.bps(ONE) == throttle.bps(ONE, "10.1.0.2") == throttle.bps(OTHER) == pytest.approx(0.2 * NIC)
    throttle.backend.close()
    assert throttle.says(ONE).state is State.OPEN and throttle.says(OTHER).state is State.OPEN


def test_a_job_without_registered_processes_is_named(throttle: Throttle) -> None:
    throttle.backend.attach(B, (socket(1),))
    [error] = throttle.backend.refresh()
    assert error.flow == B and error.kind is ErrorKind.OTHER and throttle.backend.read_back() == {}


class OverRdma:
    """A job whose net plugin counts, in one process of two."""

    def processes_of(self, name: str) -> tuple[int, ...]:
        return ONE, OTHER

    def peers_of(self, name: str, target: str) -> frozenset[tuple[int, str]]:
        return frozenset({(ONE, "10.0.0.2")}) if (name, target) == (A.job, A.target) else frozenset()

    def is_live(self, name: str) -> bool:
        return True


def test_a_job_without_sockets_is_paced_where_its_plugin_sends(throttle: Throttle) -> None:
    throttle.backend.attach(A, ())
    throttle.backend.apply([Limit(A, 3e8, 3e8)])
    assert [error.flow for error in throttle.backend.refresh()] == [A], "nobody can be told"
    throttle.pages.jobs = OverRdma()
    assert throttle.backend.refresh() == []
    assert throttle.bps(ONE) == pytest.approx(3e8)
    assert throttle.says(OTHER).state is State.OPEN
    assert throttle.backend.read_back() == {A: Limit(A, 3e8, 3e8)}
