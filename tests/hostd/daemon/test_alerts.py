"""Alerts on what a real hostd exports, in the cases that they are for."""

import urllib.request
from pathlib import Path

import pytest
import yaml

from bench.jobs.daemons import DaemonProcess
from bench.jobs.process_group import ProcessGroup
from hostd.introspect.control import ask
from tests.hostd.cluster import Cluster, cluster, edit, fork_server, joined, reasons, reload
from tests.promql import Scrape, firing

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

METRICS = "127.0.0.1:9465"
ALERTS = Path(__file__).parents[3] / "deploy" / "alerts.yml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
STEP_S = 60.0


def alerts(cluster: Cluster) -> set[str]:
    """That fire if what is exported now was so for an hour."""
    with cluster.testbed.nodes["h0"].enter(), urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as found:
        text = found.read().decode()
    target = {"job": "paceline-hosts", "instance": "h0:9465"}
    return firing(RULES, [Scrape(STEP_S * step, target, text) for step in range(60)], STEP_S)


def await_alerts(cluster: Cluster, group: ProcessGroup, expected: set[str]) -> None:
    found: list[set[str]] = [set()]

    def as_expected() -> bool:
        found.append(alerts(cluster))
        return found[-1] == expected

    try:
        cluster.run(group, as_expected)
    except AssertionError:
        assert found[-1] == expected


def started(cluster: Cluster, **options: str) -> DaemonProcess:
    return cluster.hostd(more=f'metrics = "{METRICS}"', **options)


def test_a_foreign_qdisc(cluster: Cluster) -> None:
    """What PacelineKernelDisagrees was for, and did not see: the flow has no class to be read back."""
    group = cluster.jobs("a")
    node = cluster.testbed.nodes["h0"]
    node.netlink.tc("add", "pfifo", node.index_of("eth0"), 0x30000, limit=1000)
    daemon = started(cluster)
    cluster.run(group, lambda: joined(daemon) == {"a"})
    await_alerts(cluster, group, {"PacelineForeignQdisc", "PacelineKernelDisagrees"})


def test_a_host_that_enforces_nothing_and_one_that_is_released(cluster: Cluster) -> None:
    group = cluster.jobs("a")
    daemon = started(cluster)
    cluster.run(group, lambda: joined(daemon) == {"a"})
    await_alerts(cluster, group, set())
    assert ask(daemon.place / "control.sock", "release")["released"]
    await_alerts(cluster, group, {"PacelineReleased"})
    edit(daemon, 'backend = "htb"', 'backend = "observe"')
    reload(daemon, "enforce with observe from now on")
    await_alerts(cluster, group, {"PacelineNotEnforcing", "PacelineUnpacedJobs"})
    assert "no_backend" in reasons(daemon, "a")
