"""Jobs that wait for each of their collectives, end to end: torch, shim, hostd and agent, told from hostd's journal."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.jobs.daemon_control import DaemonControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.run import Conditions, run_once
from paceline.flowcore.messages.events import FlowDone, FlowReady, HostEvent, JobLeft, SwitchEvent
from paceline.flowcore.messages.journal import decode
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.torch]

ITERATIONS = 12
LEAST_SEEN = 4  # iterations with bursts

Happened = list[tuple[int, HostEvent | SwitchEvent]]  # and when


def scenario(model_mb: float, compute_s: float) -> Scenario:
    job = JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), model_mb, compute_s, ITERATIONS, 0.0, jitter=0.0)
    return Scenario("pieces", 1, None, SlotsSpec(), star(2, 1.0), (job,), ())


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    modules = {module for kind in ("all-to-all", "tensor") for module in modules_for(scenario(1.0, 0.1), kind)}
    with ForkServer(sorted(modules), fork_server_environment()) as server:
        yield server


def happened(kind: str, of: Scenario, fork_server: ForkServer, directory: Path) -> Happened:
    """Once more where it joined late: on a machine that stands still hostd learns a job's sizes when it may."""
    found: Happened = []
    for _ in range(3):
        run_once(of, DaemonControl("paceline", journals=directory), Conditions(kind, 1), fork_server)
        entries = [decode(line) for line in (directory / "h0.jsonl").read_text().splitlines()]
        found = [(entry.now_ns, event) for entry in entries for event in entry.events]
        if len({event.iteration for _, event in found if isinstance(event, FlowReady)}) >= LEAST_SEEN:
            break
    return found


def test_every_piece_is_a_burst_and_computing_between_them_is_none(fork_server: ForkServer, tmp_path: Path) -> None:
    """Eight pieces of 112 ms each, which is longer than eight looks on any machine: taken for one burst, the flow
    would be live nearly all the time."""
    found = happened("all-to-all", scenario(112.0, 0.9), fork_server, tmp_path)
    ready = [(at_ns, event) for at_ns, event in found if isinstance(event, FlowReady)]
    done_ns = [at_ns for at_ns, event in found if isinstance(event, FlowDone)]
    bursts = Counter(event.iteration for _, event in ready)
    later = [bursts[iteration] for iteration in sorted(bursts)[-4:-1]]
    assert min(later) >= 6, bursts
    begun_ns = [at_ns for at_ns, event in ready if event.iteration == sorted(bursts)[-3]]
    live_ns = sum(min(done for done in done_ns if done > begun) - begun for begun in begun_ns)
    next_ns = min(at_ns for at_ns, event in ready if event.iteration == sorted(bursts)[-2])
    assert live_ns < 0.75 * (next_ns - begun_ns[0])


def test_chatter_is_left_to_tcp(fork_server: ForkServer, tmp_path: Path) -> None:
    """Twelve pieces of 6 ms each."""
    found = happened("tensor", scenario(9.0, 0.4), fork_server, tmp_path)
    iterations = [event.iteration for _, event in found if isinstance(event, FlowReady)]
    assert iterations, "it had joined"
    assert max(iterations) < ITERATIONS - 3 and any(isinstance(event, JobLeft) for _, event in found)
