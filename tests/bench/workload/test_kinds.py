"""Every kind of job on the testbed: it ends its iterations, and sends what the all-reduce of its model would."""

from collections.abc import Iterator

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment
from bench.jobs.run import Conditions, run_once
from bench.jobs.tcp_control import TcpControl
from bench.workload.choice import RINGS
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.torch]

HEADERS_AND_ROUNDING = 0.04  # Ethernet and TCP are 0.3 % of the bytes; the rest is for tiny models and barriers
FAST = {"checkpoint": 21, "varied": 21, "restart": 21, "crash": 21}  # iterations until the special has happened
PAIR, THREE = ("h0", "h1"), ("h0", "h1", "h2")
ALSO_OF_THREE = ("overlap", "fsdp", "tensor", "all-to-all", "local-sgd")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    modules = sorted({program.module for program in RINGS.values()})
    with ForkServer(modules, fork_server_environment()) as server:
        yield server


def scenario(workers: tuple[str, ...], iterations: int) -> Scenario:
    job = JobSpec("a", Pattern.ALLREDUCE, workers, (), 6.0, 0.04, iterations, 0.0, jitter=0.0)
    return Scenario("one", 1, None, SlotsSpec(), star(3, 1.0), (job,), ())


@pytest.mark.parametrize(
    ("kind", "workers"),
    [*((kind, PAIR) for kind in RINGS), *((kind, THREE) for kind in ALSO_OF_THREE)],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_a_kind_sends_as_much_as_its_all_reduce(kind: str, workers: tuple[str, ...], fork_server: ForkServer) -> None:
    one = scenario(workers, FAST.get(kind, 4))
    run = run_once(one, TcpControl("cubic"), Conditions(kind, 1), fork_server)
    [job] = run.jobs
    assert len(job.iteration_ends_ns) == one.jobs[0].iterations
    assert job.iteration_ends_ns == sorted(job.iteration_ends_ns)
    needed = flows_of(one.jobs[0])[0].size_bytes * len(job.iteration_ends_ns)
    for host in workers:  # the same in both directions
        for link in (f"{host}->sw", f"sw->{host}"):
            # A worker that starts anew sends the model to the others once more.
            above = needed + (one.jobs[0].model_mb * 1e6 if kind in ("restart", "crash") else 0.0)
            assert needed <= run.link_bytes[link] <= above * (1 + HEADERS_AND_ROUNDING)
