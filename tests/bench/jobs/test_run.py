"""Real and synthetic jobs on a small network, and the check that their bytes crossed it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench.jobs.control import RunningControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.process_group import RunFailed
from bench.jobs.run import Conditions, JobsRun, check_bytes, run_once
from bench.jobs.tcp_control import NoDaemons, TcpControl
from bench.testbed.network import Testbed
from nccl_shim.segment.reader import Reader
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import Scenario, parse_scenario
from paceline.flowcore.model.units import PAYLOAD_SHARE
from paceline.sim.jobs import TrainingJob
from paceline.sim.run import iteration_times_s

pytestmark = pytest.mark.root

RING = """
[[job]]
name = "ring"
pattern = "allreduce"
workers = ["h0", "h1", "h2"]
model_mb = 6.0
compute_s = 0.1
iterations = 8
"""
SERVER = """
[[job]]
name = "server"
pattern = "ps"
workers = ["h0", "h1"]
servers = ["h2"]
model_mb = 4.0
compute_s = 0.1
iterations = 8
"""
CROSS = """
[[cross_traffic]]
from = "h0"
to = "h1"
every_s = 0.4
lasts_s = [0.2, 0.2]
gbps = 0.1
"""


def scenario(*tables: str, link_gbps: float = 0.5) -> Scenario:
    head = f'version = 1\nname = "test"\n[topology]\nkind = "star"\nhosts = 3\nlink_gbps = {link_gbps}\n'
    return parse_scenario(head + "".join(tables), "test.toml")


class WatchedControl(TcpControl):
    """Cubic, and a thread that reads every host's counters, as hostd does."""

    def __init__(self) -> None:
        super().__init__("cubic")
        self.seen: dict[tuple[str, str, int], tuple[int, int]] = {}  # host, job, rank -> iteration, bytes sent in all

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[RunningControl]:
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(scenario.topology.hosts, directory, stop))
        thread.start()
        try:
            yield NoDaemons()
        finally:
            stop.set()
            thread.join()

    def _watch(self, hosts: tuple[str, ...], directory: Path, stop: threading.Event) -> None:
        readers = {host: Reader(directory / host) for host in hosts}
        while not stop.is_set():
            for host, reader in readers.items():
                for view in reader.poll():
                    key = host, view.snapshot.job, view.snapshot.global_rank
                    counter = view.snapshot.iteration_counter
                    self.seen[key] = (counter.iteration if counter else 0, view.snapshot.tx_bytes)
            time.sleep(0.01)
        for reader in readers.values():
            reader.close()


@pytest.fixture(scope="module")
def torch_fork_server() -> Iterator[ForkServer]:
    modules = modules_for(scenario(RING, SERVER, CROSS), "auto")
    with ForkServer([*modules, "bench.workload.synthetic"], fork_server_environment()) as fork_server:
        yield fork_server


def steady_s(run: JobsRun, number: int = 0) -> float:
    times = sorted(iteration_times_s(run.jobs[number])[2:])
    return times[len(times) // 2]


@pytest.mark.parametrize(
    ("table", "size_mb"),
    # 2(n-1)/n of the model; a server takes in both workers' pushes over one link.
    [(RING, 6.0 * 4 / 3), (SERVER, 4.0 * 2)],
    ids=["ring", "ps"],
)
def test_a_synthetic_job_alone_takes_what_theory_says(
    table: str, size_mb: float, torch_fork_server: ForkServer
) -> None:
    control = WatchedControl()
    run = run_once(scenario(table), control, Conditions("synthetic", 1), torch_fork_server)
    theory_s = 0.1 + size_mb * 8e6 / (0.5e9 * PAYLOAD_SHARE)
    assert 0.95 < steady_s(run) / theory_s < 1.4
    assert len(run.jobs[0].iteration_ends_ns) == 8
    # Each host's processes have said how far they are, and by how much they got there.
    spec = run.jobs[0].spec
    senders = [*((host, rank) for rank, host in enumerate(spec.workers)), *((host, 2) for host in spec.servers)]
    for host, rank in senders:
        iteration, tx_bytes = control.seen[host, spec.name, rank]
        assert iteration >= 6
        per_iteration = size_mb * 1e6 if table is RING or rank == 2 else size_mb * 1e6 / 2
        assert tx_bytes >= 6 * per_iteration


def test_real_jobs_train_over_the_emulated_network_and_are_seen(torch_fork_server: ForkServer) -> None:
    control = WatchedControl()
    run = run_once(scenario(RING, SERVER), control, Conditions("auto", 1), torch_fork_server)
    assert [len(job.iteration_ends_ns) for job in run.jobs] == [8, 8]
    assert all(steady_s(run, number) > 0.1 for number in range(2))
    for host, job, rank in (("h0", "ring", 0), ("h1", "ring", 2), ("h2", "ring", 1), ("h1", "server", 1)):
        iteration, tx_bytes = control.seen[host, job, rank]
        assert iteration >= 5
        assert tx_bytes >= 5 * 4e6
    assert control.seen["h2", "server", 2][1] >= 5 * 8e6  # what it pushed to its two workers


def test_a_real_ring_goes_the_way_the_scenario_says(torch_fork_server: ForkServer) -> None:
    """Where two spines part what goes one way round from what goes the other."""
    head = 'version = 1\nname = "test"\n[topology]\nkind = "clos"\n'
    head += "servers_per_tor = 1\ntors = 3\nspines = 2\nlink_gbps = [0.5, 0.5]\n"
    ring = parse_scenario(head + RING, "test.toml")
    paths = {flow.flow.source: ring.topology.path(flow.flow.source, flow.flow.target, str(flow.flow))
             for flow in flows_of(ring.jobs[0])}  # fmt: skip
    assert len({path[1].partition("->")[2] for path in paths.values()}) == 2
    run = run_once(ring, TcpControl("cubic"), Conditions("ddp", 1), torch_fork_server)  # raises where bytes are missing
    assert len(run.jobs[0].iteration_ends_ns) == 8


def test_cross_traffic_keeps_to_its_rate_and_is_counted(torch_fork_server: ForkServer) -> None:
    timed = replace(scenario(RING, CROSS), duration_s=2.0)
    jobs = tuple(replace(job, iterations=None) for job in timed.jobs)
    run = run_once(replace(timed, jobs=jobs), TcpControl("cubic"), Conditions("synthetic", 1), torch_fork_server)
    (sent_bytes,) = run.cross_traffic_bytes
    whole_bytes = 0.1e9 / 8 * 0.2 * 5
    # A busy machine is late to end the run, and traffic goes on meanwhile.
    overtime = max(1.0, run.lasted_ns / 2e9)
    assert 0.3 * whole_bytes < sent_bytes < 1.5 * whole_bytes * overtime
    assert 1.9e9 < run.lasted_ns < 4e9


def test_a_failing_process_is_named_in_one_line(torch_fork_server: ForkServer) -> None:
    sound = scenario(RING)
    broken = replace(sound.jobs[0], compute_s=-1.0)
    with pytest.raises(RunFailed, match=r"^ring worker on h\d failed: ValueError: .+$"):
        run_once(replace(sound, jobs=(broken,)), TcpControl("cubic"), Conditions("synthetic", 1), torch_fork_server)


def test_bytes_that_bypassed_the_emulated_network_are_noticed() -> None:
    job = TrainingJob(scenario(RING).jobs[0], 1)
    job.iteration_ends_ns = [1, 2]
    paths = {(a, b): (a, "sw", b) for a in ("h0", "h1", "h2") for b in ("h0", "h1", "h2") if a != b}
    links = [f"h{n}->sw" for n in range(3)] + [f"sw->h{n}" for n in range(3)]
    check_bytes([job], paths, dict.fromkeys(links, 16_000_000))
    with pytest.raises(RunFailed, match="sw->h2 carried 15000000 bytes"):
        check_bytes([job], paths, dict.fromkeys(links, 16_000_000) | {"sw->h2": 15_000_000})
    # Bytes of cross traffic do not stand in for the jobs'.
    with pytest.raises(RunFailed, match="h0->sw carried 16000000 bytes"):
        check_bytes([job], paths, dict.fromkeys(links, 16_000_000), [(("h0", "h2"), 1_000_000)])
