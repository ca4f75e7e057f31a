"""Jobs without sockets under a real daemon: known by their net plugin's counts, paced by it, and said to be."""

import pytest

from nccl_shim.page.layout import State, peer_bytes
from nccl_shim.page.reader import PageReader
from nccl_shim.segment.liveness import start_ticks
from tests.hostd.cluster import Cluster, cluster, flows, fork_server, joined
from tests.hostd.conftest import wait_until

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = [pytest.mark.root, pytest.mark.slow]


def test_jobs_over_rdma_are_throttled(cluster: Cluster) -> None:
    daemon = cluster.hostd(backend="auto")
    wait_until(lambda: "jobs register at" in daemon.log())
    group = cluster.jobs("a", "agreeing", model_mb=4.0, registered=True, module="tests.hostd.nccl.rdma_job")
    cluster.run(group, lambda: joined(daemon) == {"a", "agreeing"})

    def both_are_throttled() -> bool:
        return {(job["name"], job["backend"], job["why_backend"]) for job in daemon.status()["jobs"]} == {
            (job, "throttle", "no socket carries its data, and NCCL sends it through our net plugin")
            for job in ("a", "agreeing")
        }

    cluster.run(group, both_are_throttled)
    assert {flow["sockets"] for flow in flows(daemon.status())} == {0}
    other = peer_bytes(str(cluster.testbed.addresses.data["h1"]))
    pids = [process.pid for process in group.processes if process.spec.host == "h0"]
    readers = [PageReader(daemon.place / "jobs" / "pages" / f"{pid}-{start_ticks(pid)}.page") for pid in pids]
    paced: set[int] = set()

    def both_were_paced() -> bool:
        paced.update(pid for pid, one in zip(pids, readers, strict=True) if one.look(other).state is State.RATE)
        return paced == {*pids}

    cluster.run(group, both_were_paced)
    for reader in readers:
        reader.close()
