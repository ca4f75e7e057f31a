"""A job that hangs in its collective, beside one that does not: real sockets, real daemons, real kernel.

Bursts last 0.2 s: shorter ones are never held back. The two jobs meet on h2's links only, and no host but h2 sees both:
what hostd on h0 does not lend, the flow on h1 does not get.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment
from bench.jobs.process_group import ProcessGroup
from tests.hostd.cluster import Cluster, joined
from tests.hostd.daemon.hanging_job import ITERATIONS

pytestmark = pytest.mark.root

HANGING = "tests.hostd.daemon.hanging_job"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        modules = ["bench.workload.synthetic", HANGING]
        yield Cluster(stack.enter_context(ForkServer(modules, fork_server_environment())), stack, hosts=3)


def iteration_s(cluster: Cluster, group: ProcessGroup, duration_s: float) -> float:
    before = sum(len(process.numbers) for process in group.processes)
    cluster.pause(group, duration_s)
    return duration_s * len(group.processes) / max(1, sum(len(process.numbers) for process in group.processes) - before)


@pytest.mark.root
@pytest.mark.slow
def test_a_hung_job_stops_no_other(cluster: Cluster) -> None:
    cluster.switchd()
    daemons = {host: cluster.hostd(host, with_switch=True) for host in ("h0", "h1", "h2")}
    going = cluster.jobs("going", model_mb=5.0, hosts=("h1", "h2"))
    cluster.run(going, lambda: all("going" in joined(daemons[host]) for host in ("h1", "h2")))
    alone_s = iteration_s(cluster, going, 3.0)
    hanging = cluster.jobs("hanging", model_mb=5.0, hosts=("h0", "h2"), module=HANGING)
    cluster.run(hanging, lambda: all("hanging" in joined(daemons[host]) for host in ("h0", "h2")))
    cluster.run(hanging, lambda: all(len(process.numbers) == ITERATIONS for process in hanging.processes))
    cluster.pause(going, 3.0)  # its share lies unused for a slot or two and is lent; or its urgency grows
    beside_s = iteration_s(cluster, going, 4.0)
    phases = {host: {job["name"]: job["phase"] for job in daemons[host].status()["jobs"]} for host in ("h0", "h2")}
    assert {phases[host]["hanging"] for host in ("h0", "h2")} == {"sending"}, "it has announced bytes"
    assert beside_s <= alone_s / 0.9
