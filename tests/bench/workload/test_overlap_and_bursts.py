"""A job's overlap and bursts on the testbed: an iteration alone takes what the simulator says, and sends its bytes."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment
from bench.jobs.run import Conditions, run_once
from bench.jobs.tcp_control import TcpControl
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.sim.run import alone_iterations_s, iteration_times_s

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.torch]

RING = JobSpec("ring", Pattern.ALLREDUCE, ("h0", "h1"), (), 6.0, 0.2, 10, 0.0, 0.0)  # 0.1 s at 0.5 Gbit/s
PS = JobSpec("ps", Pattern.PS, ("h0", "h1"), ("h2",), 3.0, 0.2, 10, 0.0, 0.0)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    modules = [f"bench.workload.{name}" for name in ("ddp", "ps", "synthetic")]
    with ForkServer(modules, fork_server_environment()) as server:
        yield server


@pytest.mark.parametrize(
    ("job", "workload"),
    [
        (replace(RING, overlap=0.8), "ddp"),  # all of the exchange is hidden
        (replace(RING, overlap=0.25), "ddp"),  # half of it
        (replace(RING, overlap=0.8), "synthetic"),
        (replace(RING, overlap=0.25, bursts=3), "synthetic"),
        (replace(PS, overlap=0.8, bursts=3), "synthetic"),
        (replace(PS, overlap=0.8, bursts=3), "ps"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.name}-{value.overlap}-{value.bursts}",
)
def test_alone_it_takes_what_the_simulator_says(job: JobSpec, workload: str, fork_server: ForkServer) -> None:
    one = Scenario("one", 1, None, SlotsSpec(), star(3, 0.5), (job,), ())
    run = run_once(one, TcpControl("cubic"), Conditions(workload, 1), fork_server)  # raises where bytes are missing
    expected_s = alone_iterations_s(one, 1)[job.name]
    found_s = median(iteration_times_s(run.jobs[0])[2:])
    in_a_row_s = alone_iterations_s(replace(one, jobs=(replace(job, overlap=0.0),)), 1)[job.name]
    assert 0.98 * expected_s < found_s < (expected_s + in_a_row_s) / 2
