"""What pages say of jobs that have the turn, wait, or rest."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.enforce.errors import ErrorKind
from hostd.enforce.shim.gate import GateBackend
from hostd.pages.pages import Pages
from hostd.registration.registrations import Registered
from nccl_shim.page.layout import ANY_PEER, State
from nccl_shim.page.reader import PageReader
from nccl_shim.segment.liveness import start_ticks
from paceline.flowcore.host.launches import LATELY_NS
from paceline.flowcore.messages.events import Limit
from tests.flowcore.host.turn_limits import NIC, A, B, C, has, rests, shut


class Gate:
    """Two jobs, of this process and of the one that started it."""

    def __init__(self, directory: Path) -> None:
        self.now_ns = 10**12
        self.live: set[str] = set()
        self.pages = Pages(directory, 1_000_000_000)
        self.pages.jobs = self
        self.processes: dict[str, list[int]] = {"a": [os.getpid()], "b": [os.getppid()]}
        for name, [pid] in self.processes.items():
            self.pages.note(Registered(name, pid, start_ticks(pid) or 0, os.getuid(), -1))
        self.backend = GateBackend(self.pages, NIC, NIC, lambda: self.now_ns)
        self.backend.attach(A, ())
        self.backend.attach(B, ())

    def peers_of(self, name: str, target: str) -> frozenset[tuple[int, str]]:
        return frozenset()

    def processes_of(self, name: str) -> list[int]:
        return self.processes.get(name, [])

    def is_live(self, name: str) -> bool:
        return name in self.live

    def both(self) -> tuple[str, str]:
        return self.says("a"), self.says("b")

    def is_told(self, *limits: Limit, live: str) -> tuple[str, str]:
        self.live = set(live)
        self.backend.apply(limits)
        return self.both()

    def says(self, job: str) -> str:
        [pid] = self.processes[job]
        reader = PageReader(self.pages.directory / f"{pid}-{start_ticks(pid)}.page")
        raw = reader.look(ANY_PEER, None)
        held = {entry.held_until_ns for entry in reader._entries.values() if entry.state == State.HELD}
        reader.close()
        return "held" if any(until_ns > self.now_ns for until_ns in held) else raw.state.name.lower()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "pages")
    yield made
    made.backend.close()
    made.pages.close()


def test_turns_are_on_the_pages(gate: Gate) -> None:
    assert gate.is_told(rests(A), rests(B), live="") == ("open", "open")
    assert gate.is_told(has(A), live="a") == ("open", "held"), "before it launches"
    assert gate.is_told(rests(A), live="") == ("open", "open")
    assert gate.is_told(has(A), live="a") == ("open", "held")
    assert gate.is_told(rests(A), live="b") == ("open", "open"), "no other job waits"
    assert gate.is_told(has(B), live="b") == ("held", "open")
    assert gate.is_told(rests(B), live="") == ("open", "open")


def test_several_that_have_waited_wait_for_the_answer(gate: Gate) -> None:
    gate.backend.attach(C, ())
    assert gate.is_told(rests(A), rests(B), has(C), live="c") == ("held", "held")
    gate.live = {"a", "b"}
    assert gate.is_told(rests(C), live="ab") == ("ask", "ask")
    assert gate.is_told(has(B), live="ab") == ("held", "open")
    assert gate.is_told(rests(B), live="a") == ("open", "open")


def test_jobs_that_launched_at_one_moment_ask_once(gate: Gate) -> None:
    gate.is_told(rests(A), rests(B), live="ab")
    assert gate.is_told(has(A), live="ab") == ("open", "held"), "b has begun, too, and will not be stopped"
    assert gate.is_told(rests(A), live="") == ("open", "ask")
    assert gate.is_told(has(B), live="b") == ("held", "open")
    assert gate.is_told(rests(B), live="") == ("open", "open")


def test_jobs_that_met_on_another_hosts_link_ask_for_a_while(gate: Gate) -> None:
    gate.is_told(rests(A), rests(B), live="")
    assert gate.is_told(shut(A), live="a") == ("held", "open")
    assert gate.is_told(has(A), live="a") == ("open", "held")
    assert gate.is_told(rests(A), live="") == ("ask", "open")
    gate.now_ns += LATELY_NS
    gate.backend.watch_losses({})
    assert gate.both() == ("open", "open")


def test_a_hold_is_renewed_and_ends_with_its_job_or_the_backend(gate: Gate) -> None:
    gate.is_told(has(A), rests(B), live="b")
    gate.now_ns += 3_000_000_000
    gate.backend.refresh()
    assert gate.says("b") == "held"
    gate.backend.detach(A)
    assert gate.says("b") == "open"
    gate.is_told(shut(B), live="b")
    assert gate.says("b") == "held"
    gate.backend.detach(B)
    assert gate.says("b") == "open"
    gate.backend.attach(B, ())
    gate.backend.apply([shut(B)])
    assert gate.says("b") == "held" and set(gate.backend.read_back()) == {B}
    gate.backend.close()
    assert gate.says("b") == "open"


def test_a_job_without_registered_processes_is_named(gate: Gate) -> None:
    gate.processes["b"] = []
    [error] = gate.backend.refresh()
    assert error.flow == B and error.kind is ErrorKind.OTHER and "registered" in error.reason
    assert set(gate.backend.read_back()) == {A}
