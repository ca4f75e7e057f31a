"""Jobs that count an iteration when it is launched, as over NCCL, under real daemons: paced, and let in on time."""

from typing import Any

import pytest

from tests.hostd.cluster import Cluster, cluster, flows, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root


def test_both_hosts_pace_both_jobs(cluster: Cluster) -> None:
    group = cluster.jobs("a", "b", module="tests.hostd.nccl.launching_job")
    cluster.switchd()
    daemons = [cluster.hostd(host, with_switch=True) for host in ("h0", "h1")]
    for daemon in daemons:
        daemon.await_hostd(connected=True)
    cluster.run(group, lambda: all(joined(daemon) == {"a", "b"} for daemon in daemons))
    for daemon in daemons:
        cluster.run(group, lambda daemon=daemon: _is_paced_with_the_switch(daemon.status()))
        assert daemon.status()["jobs"] and not any(job["not_paced"] for job in daemon.status()["jobs"])


def test_a_job_that_marks_no_iterations_is_paced_by_its_rhythm(cluster: Cluster) -> None:
    group = cluster.jobs("a", module="tests.hostd.nccl.unmarked_job")
    daemon = cluster.hostd()
    cluster.run(group, lambda: any(flow["live"] and flow["kernel_bps"] for flow in flows(daemon.status())))
    [flow] = flows(daemon.status())
    bursts = flow["size_bytes"] / 1.25e6 * 1448 / 1514
    assert bursts > 0.9 and abs(bursts - round(bursts)) < 0.05, "one, or some where a busy hostd missed rests"


def _is_paced_with_the_switch(status: dict[str, Any]) -> bool:
    live = any(flow["live"] and flow["kernel_bps"] for flow in flows(status))
    return live and not status["switch"]["deciding_alone"]
