"""A host that lies to a real switch about its jobs slows those of other hosts no more than sharing equally does.

Two jobs with bursts of 0.2 s meet on h2's links, and the daemon on h0 lies for one of them. What is fair is measured in
the same run: TCP alone, before there are daemons. 5 % is what the simulator finds (tests/sim/lies); a busy machine
adds.
"""

from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.process_group import ProcessGroup
from tests.hostd.cluster import Cluster, fork_server, joined

__all__ = ["fork_server"]  # fixture

pytestmark = [pytest.mark.root, pytest.mark.slow]

LYING = str(Path(__file__).with_name("lying_hostd.py"))
AT_MOST = 1.15
WINDOW_S, WINDOWS = 3.0, 4  # one in which the machine was not too busy will do: a lie that works works in all of them


def iteration_s(cluster: Cluster, group: ProcessGroup, duration_s: float) -> float:
    """The mean of the iterations that end from now on."""
    before = [len(process.numbers) for process in group.processes]
    cluster.pause(group, duration_s)
    spans = [process.numbers[count - 1 :] for process, count in zip(group.processes, before, strict=True)]
    return mean((ends[-1] - ends[0]) / (len(ends) - 1) for ends in spans) / 1e9


def test_a_host_that_lies_takes_nothing_from_others(fork_server: ForkServer) -> None:
    with ExitStack() as stack:
        cluster = Cluster(fork_server, stack, hosts=3)
        cluster.jobs("lying", model_mb=5.0, hosts=("h0", "h2"))
        honest = cluster.jobs("honest", model_mb=5.0, hosts=("h1", "h2"))
        cluster.run(honest, lambda: all(len(process.numbers) > 1 for process in honest.processes))
        fair_s = iteration_s(cluster, honest, WINDOW_S)
        cluster.switchd()
        daemons = {host: cluster.hostd(host, with_switch=True, start=False) for host in ("h0", "h1", "h2")}
        daemons["h0"].argv[1:3] = [LYING]
        for daemon in daemons.values():
            cluster.start(daemon)
        paced = (("h0", "lying"), ("h1", "honest"), ("h2", "lying"), ("h2", "honest"))
        cluster.run(honest, lambda: all(job in joined(daemons[host]) for host, job in paced))
        measured_s = list[float]()
        while not measured_s or (measured_s[-1] > AT_MOST * fair_s and len(measured_s) < WINDOWS):
            measured_s.append(iteration_s(cluster, honest, WINDOW_S))
        assert min(measured_s) <= AT_MOST * fair_s, (fair_s, measured_s)
