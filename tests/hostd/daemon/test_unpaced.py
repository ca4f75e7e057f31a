"""Why is my job not paced? Status, explain, log and a metric say it, of jobs that are not."""

import json
import os
import urllib.request

import pytest

from bench.jobs.daemons import DaemonProcess
from paceline import cli
from tests.hostd.cluster import Cluster, cluster, edit, fork_server, joined, reasons, reload

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

METRICS = "127.0.0.1:9465"
WITH_METRICS = f'metrics = "{METRICS}"'


def explained(capsys: pytest.CaptureFixture[str], daemon: DaemonProcess, *arguments: str) -> str:
    assert cli.main(["explain", *arguments, "--runtime-directory", str(daemon.place)]) == 0
    return capsys.readouterr().out


def metric(cluster: Cluster, name: str) -> float:
    with cluster.testbed.nodes["h0"].enter(), urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as found:
        lines = [line.rpartition(" ") for line in found.read().decode().splitlines()]
    return float({key: value for key, _, value in lines}.get(f"paceline_host_{name}", "nan"))


def test_a_peer_of_no_known_address(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen in [addresses]: the job was learned for ever, without a word."""
    group = cluster.jobs("a")
    daemon = cluster.hostd(more=WITH_METRICS, start=False)
    right = str(cluster.testbed.addresses.data["h1"])
    edit(daemon, f'h1 = "{right}"', 'h1 = "10.99.99.99"')
    cluster.start(daemon)
    cluster.run(group, lambda: "unknown_peer" in reasons(daemon, "a"))
    assert right in reasons(daemon, "a")["unknown_peer"]
    assert f"unknown_peer: it sends to {right}, of no host in [addresses]" in explained(capsys, daemon, "a")
    assert cli.main(["status", "--runtime-directory", str(daemon.place)]) == 0
    assert right in " ".join(capsys.readouterr().out.split())
    cluster.run(group, lambda: metric(cluster, 'unpaced_jobs{reason="unknown_peer"}') == 1)
    logged = [json.loads(line) for line in daemon.log().splitlines()]
    [line] = [line for line in logged if line.get("job") == "a" and "not paced" in line["message"]]
    assert line["level"] == "warning" and right in line["message"]


def test_the_hosts_own_address_is_missing(cluster: Cluster) -> None:
    group = cluster.jobs("a")
    daemon = cluster.hostd(start=False)
    own = str(cluster.testbed.addresses.data["h0"])
    edit(daemon, f'h0 = "{own}"', 'h0 = "10.99.99.99"')
    cluster.start(daemon)
    assert f"10.99.99.99 is on no device of this host, which has {own}" in daemon.log()
    cluster.run(group, lambda: "own_address" in reasons(daemon, "a"))
    assert f"it sends from {own}, which [addresses] does not have as h0" in reasons(daemon, "a")["own_address"]


def test_a_job_that_is_paced_has_no_reason(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    group = cluster.jobs("a")
    daemon = cluster.hostd(more=WITH_METRICS)
    cluster.run(group, lambda: joined(daemon) == {"a"})
    assert reasons(daemon, "a") == {}
    assert explained(capsys, daemon, "a").startswith("a: paced, ")
    cluster.run(group, lambda: metric(cluster, 'slowdown_ratio{job="a"}') >= 1.0)
    for reason in ("learning", "unknown_peer", "not_listed", "split"):
        assert metric(cluster, f'unpaced_jobs{{reason="{reason}"}}') == 0


def test_as_the_operator_said(cluster: Cluster) -> None:
    group = cluster.jobs("a")
    daemon = cluster.hostd(mode="observe")
    cluster.run(group, lambda: daemon.status()["jobs"])
    assert "observing" in reasons(daemon, "a")
    edit(daemon, 'mode = "observe"', 'mode = "enforce"\njobs = ["b"]')
    reload(daemon, "enforce with htb from now on")
    assert reasons(daemon, "a")["not_listed"].endswith(": b")
    edit(daemon, 'jobs = ["b"]', "")
    edit(daemon, 'backend = "htb"', 'backend = "observe"')
    reload(daemon, "enforce with observe from now on")
    assert 'backend = "observe"' in reasons(daemon, "a")["no_backend"]
    assert daemon.status()["enforcing"] is False


def test_a_qdisc_that_hostd_did_not_set(cluster: Cluster) -> None:
    group = cluster.jobs("a")
    node = cluster.testbed.nodes["h0"]
    node.netlink.tc("add", "pfifo", node.index_of("eth0"), 0x30000, limit=1000)
    daemon = cluster.hostd(more=WITH_METRICS)
    cluster.run(group, lambda: "foreign_qdisc" in reasons(daemon, "a"))
    assert "the qdisc pfifo 3: was not set by hostd; takeover = true" in reasons(daemon, "a")["foreign_qdisc"]
    cluster.run(group, lambda: metric(cluster, 'unpaced_jobs{reason="foreign_qdisc"}') == 1)
    [(reason, times)] = daemon.status()["trouble_times"].items()
    assert "pfifo" in reason and times["age_s"] < 10 and times["first"] <= times["last"]
    node.netlink.tc("del", "pfifo", node.index_of("eth0"), 0x30000)
    cluster.run(group, lambda: reasons(daemon, "a") == {}, limit_s=30.0)


def test_one_job_under_two_names(cluster: Cluster) -> None:
    """As without --job: each host names it script-pid."""
    cluster.switchd()
    daemons = [cluster.hostd(host, with_switch=True) for host in ("h0", "h1")]
    group = cluster.jobs("a", known_as={"h0": "train.py-17", "h1": "train.py-4711"})
    cluster.run(group, lambda: "split" in reasons(daemons[0], "train.py-17"), limit_s=40.0)
    why = reasons(daemons[0], "train.py-17")["split"]
    assert why == "the switch hears nothing of train.py-17/ring/h1>h0: the job has another name there, or is not paced"
    cluster.run(group, lambda: "split" in reasons(daemons[1], "train.py-4711"))


def test_two_jobs_under_one_name(cluster: Cluster) -> None:
    known_as = {"h0": "same", "h1": "same"}
    group = cluster.jobs("a", known_as=known_as)
    cluster.jobs("b", known_as=known_as)
    daemon = cluster.hostd()
    cluster.run(group, lambda: "merged" in reasons(daemon, "same"))
    assert "several processes have rank 0" in reasons(daemon, "same")["merged"]


def test_the_limits_of_one_job_are_lifted_by_order(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    group = cluster.jobs("a", "b")
    daemon = cluster.hostd(more=WITH_METRICS)
    where = ("--runtime-directory", str(daemon.place))
    cluster.run(group, lambda: joined(daemon) == {"a", "b"})
    assert cli.main(["release", "a", *where]) == 0
    assert "the limits of a are lifted, until hostd is reloaded or restarted" in capsys.readouterr().out
    cluster.pause(group, 0.5)
    assert joined(daemon) == {"b"}, "it does not join again by itself"
    assert (
        f"uid {os.getuid()}" in reasons(daemon, "a")["released"]
        and str(os.getpid()) in reasons(daemon, "a")["released"]
    )
    assert "released: its limits were lifted: by uid" in explained(capsys, daemon, "a")
    flow = next(flow for job in daemon.status()["jobs"] if job["name"] == "a" for flow in job["flows"])
    assert flow["requested_bps"] is None and flow["kernel_bps"] is None
    assert metric(cluster, "released_jobs") in (0, 1)
    [line] = [json.loads(line) for line in daemon.log().splitlines() if "release ordered by" in line]
    assert line["pid"] == os.getpid() and line["level"] == "warning"
    assert cli.main(["release", "nothing", *where]) == 2
    assert "no job 'nothing' on this host; there are: a, b" in capsys.readouterr().err
    reload(daemon, "enforce with htb from now on")
    assert joined(daemon) == {"a", "b"} and reasons(daemon, "a") == {}


def test_after_a_release_of_everything_nothing_is_said_to_be_paced(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    group = cluster.jobs("a")
    daemon = cluster.hostd()
    cluster.run(group, lambda: joined(daemon) == {"a"})
    where = ("--runtime-directory", str(daemon.place))
    assert cli.main(["release", "--all", *where]) == 0
    assert joined(daemon) == set() and daemon.status()["enforcing"] is False
    assert "every limit of this host was lifted: by uid" in reasons(daemon, "a")["released"]
    capsys.readouterr()
    assert cli.main(["explain", "a/ring/h0>h1", *where]) == 2
    assert "every limit of this host was lifted" in capsys.readouterr().err
    assert cli.main(["status", *where]) == 0
    assert "every limit is lifted until the next reload: by uid" in " ".join(capsys.readouterr().out.split())
