"""A job whose sockets set a priority of their own, again and again, is named, and is held to its limit all the same."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.enforce.errors import EnforcementError, ErrorKind
from hostd.enforce.htb import HtbBackend
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import Limit
from tests.hostd.conftest import FLOW, PORT, THERE, THERE6, Job, Wire, next_line

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_BPS = 40e6
EVADING = str(Path(__file__).with_name("evading_job.py"))


@pytest.fixture
def backend(wire: Wire, tmp_path: Path) -> Iterator[HtbBackend]:
    with wire.here.enter():
        backend = HtbBackend(UndoLog(tmp_path / "lease.json"), lambda device: 400e6)
        yield backend
        assert backend.close() == []


def evader(wire: Wire, address: str) -> Job:
    wire.sink(address, PORT)
    command = [sys.executable, "-S", EVADING, address, str(PORT), "0.01"]
    job = Job(wire.here.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    wire.stack.callback(job.end)
    assert next_line(job.process) == "sending"
    return job


def evaded(errors: list[EnforcementError]) -> list[EnforcementError]:
    return [error for error in errors if error.kind is ErrorKind.EVADED]


@pytest.mark.parametrize("address", [str(THERE.ip), THERE6])
def test_it_is_named_and_gains_nothing(wire: Wire, backend: HtbBackend, address: str) -> None:
    job = evader(wire, address)
    sockets = job.sockets()
    assert backend.attach(FLOW, sockets) == []
    assert backend.apply([Limit(FLOW, LIMIT_BPS, LIMIT_BPS)]) == []
    job.comes_to(sockets, 3 * LIMIT_BPS)  # outside its class most of the time
    [error] = evaded(backend.refresh())
    assert error.flow == FLOW and error.reason.startswith(f"process {job.pid} took a socket out of its class")
    job.comes_to(sockets, 0.5 * LIMIT_BPS, 1.1 * LIMIT_BPS)
    assert job.rate_bps(sockets, 0.5) < 1.1 * LIMIT_BPS
    assert evaded(backend.refresh()), "as long as it does"
    assert backend.detach(FLOW) == [] and evaded(backend.refresh()) == []
    job.comes_to(sockets, 3 * LIMIT_BPS)


def test_of_many_sockets_some_are_looked_at_at_a_time(
    wire: Wire, backend: HtbBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostd.enforce.htb.MOST_LOOKED_AT", 2)
    sockets = (*evader(wire, str(THERE.ip)).sockets(), *wire.send(3).sockets(3))
    assert backend.attach(FLOW, sockets) == []
    time.sleep(0.1)
    assert len(evaded([error for _ in range(3) for error in backend.refresh()])) in (1, 2)


def test_sockets_that_stay_in_their_class_are_no_news(wire: Wire, backend: HtbBackend) -> None:
    wire.sink()
    job = wire.send(2)
    sockets = job.sockets(2)
    assert backend.attach(FLOW, sockets) == backend.refresh() == []
    assert backend.apply([Limit(FLOW, LIMIT_BPS, LIMIT_BPS)]) == []
    job.comes_to(sockets, 0.5 * LIMIT_BPS, 1.1 * LIMIT_BPS)
