"""hostd from end to end: counters of shim and kernel in, HTB classes and socket options out."""

import json
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import ClockSet, FlowDone, FlowReady, IterationEnded, Limit
from paceline.flowcore.messages.journal import decode, replay
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.policy import POLICIES
from tests.hostd.cluster import SLOTS, Cluster, cluster, flows, fork_server, joined

METRICS = "127.0.0.1:9465"
__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root


def test_two_jobs_with_a_switch(cluster: Cluster, tmp_path: Path) -> None:
    group = cluster.jobs("a", "b")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    cluster.switchd()
    journals = {host: tmp_path / f"{host}.jsonl" for host in ("h0", "h1")}
    more = f'metrics = "{METRICS}"'
    daemons = [cluster.hostd(host, with_switch=True, journal=path, more=more) for host, path in journals.items()]
    for daemon in daemons:
        daemon.await_hostd(connected=True)
    cluster.run(group, lambda: all(joined(daemon) == {"a", "b"} for daemon in daemons))
    assert cluster.state(sockets) != before
    seen = {"live": False, "agreed": False}

    def live_and_as_requested() -> bool:
        status = daemons[0].status()
        for flow in flows(status):
            seen["live"] |= flow["live"] and flow["sent_bytes"] > 0
            requested, kernel = flow["requested_bps"], flow["kernel_bps"]
            seen["agreed"] |= bool(flow["live"] and kernel and abs(kernel - requested) <= 0.01 * requested)
        return all(seen.values())

    cluster.run(group, live_and_as_requested)
    cluster.run(group, lambda: _negotiations(cluster) > 10)
    status = daemons[0].status()
    assert not status["switch"]["deciding_alone"] and status["switch"]["round_trip_ms"] > 0
    assert _scraped(cluster, "healthz") == ["alive"]
    assert status["switch"]["word_age_ms"] < 1000
    assert status["troubles"] == {} and status["invisible"] == {} and status["fail_opens"] == 0
    assert [daemon.stop() for daemon in daemons] == [0, 0]
    assert cluster.state(sockets) == before

    for host, path in journals.items():
        lines = path.read_text().splitlines()
        agent = HostAgent(host, cluster.topology, SLOTS.clock(), POLICIES["paceline"](), "sw")
        assert list(replay(lines, {host: agent})) == []
        events = [decode(line) for line in lines]
        kinds = {type(event) for entry in events for event in entry.events}
        assert kinds >= {FlowReady, FlowDone, IterationEnded, Feedback}
        assert any(isinstance(effect, Limit) for entry in events for effect in entry.effects)
        set_at_ns = {entry.now_ns for entry in events if any(isinstance(event, ClockSet) for event in entry.events)}
        assert all(one.now_ns <= other.now_ns or other.now_ns in set_at_ns for one, other in pairwise(events))


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_alone_without_a_switch(cluster: Cluster, backend: str) -> None:
    group = cluster.jobs("a", "b")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd(backend=backend)
    cluster.run(group, lambda: joined(daemon) == {"a", "b"})
    cluster.run(group, lambda: any(flow["live"] and flow["kernel_bps"] for flow in flows(daemon.status())))
    status = daemon.status()
    assert status["backend"] == backend and status["guardian_pid"]
    assert status["switch"]["deciding_alone"] and status["switch"]["why"] == "no switch is configured"
    assert cluster.state(sockets) != before
    assert daemon.stop() == 0
    assert cluster.state(sockets) == before


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_mode_that_sets_nothing(cluster: Cluster, mode: str) -> None:
    group = cluster.jobs("a", "b")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd(mode=mode)
    cluster.run(group, lambda: [job["phase"] != "learning" for job in daemon.status()["jobs"]] == [True, True])
    cluster.pause(group, 1.0)
    status = daemon.status()
    assert status["guardian_pid"] is None, "nothing is set, so nothing needs to be lifted"
    assert cluster.state(sockets) == before
    assert {flow["flow"] for flow in flows(status)} == {"a/ring/h0>h1", "b/ring/h0>h1"}
    cluster.run(group, lambda: all(1e6 < (flow["size_bytes"] or 0) < 2e6 for flow in flows(daemon.status())))
    assert all(flow["sockets"] for flow in flows(daemon.status()))
    cluster.run(group, lambda: any(flow["achieved_bps"] > 1e6 for flow in flows(daemon.status())))
    cluster.run(group, lambda: all((job["iteration_ms"] or 0) > 100 for job in daemon.status()["jobs"]))
    if mode == "observe":
        assert status["decisions"] == 0 and not joined(daemon)
    else:
        assert status["decisions"] > 0 and joined(daemon) == {"a", "b"}
        cluster.run(group, lambda: any(flow["requested_bps"] is not None for flow in flows(daemon.status())))
    assert daemon.stop() == 0
    assert cluster.state(sockets) == before


def test_only_jobs_on_the_list_are_controlled(cluster: Cluster) -> None:
    group = cluster.jobs("mine", "theirs")
    theirs = tuple(one for one in cluster.sockets(group) if one.pid in _pids(group, "theirs"))
    before = cluster.state(theirs)[-1]
    daemon = cluster.hostd(more='jobs = ["mine", "not there"]')
    cluster.run(group, lambda: joined(daemon) == {"mine"})
    cluster.run(group, lambda: [job["phase"] != "learning" for job in daemon.status()["jobs"]] == [True, True])
    cluster.pause(group, 0.5)
    assert joined(daemon) == {"mine"}
    asked = lambda: {flow["flow"].partition("/")[0]: flow["requested_bps"] for flow in flows(daemon.status())}  # noqa: E731
    cluster.run(group, lambda: asked()["mine"] is not None)
    assert asked()["theirs"] is None, "the other job is watched"
    assert cluster.state(theirs)[-1] == before, "its sockets are as they were"
    logged = [json.loads(line) for line in daemon.log().splitlines()]
    said = {(line.get("job"), line["message"]): line.get("flow") for line in logged}
    assert said["mine", "job joined"] == ["mine/ring/h0>h1"] and said["mine", "flow attached"] == "mine/ring/h0>h1"
    assert said["theirs", "job seen, and only watched"] == ["theirs/ring/h0>h1"]
    assert ("theirs", "flow attached") not in said


def _scraped(cluster: Cluster, what: str = "metrics") -> list[str]:
    with cluster.testbed.nodes["h0"].enter(), urllib.request.urlopen(f"http://{METRICS}/{what}", timeout=10) as found:
        return found.read().decode().splitlines()


def _negotiations(cluster: Cluster) -> float:
    [line] = [line for line in _scraped(cluster) if line.startswith("paceline_host_negotiation_seconds_count")]
    return float(line.split()[-1])


def _pids(group, job: str) -> set[int]:
    return {process.pid for process in group.processes if process.spec.job == job}
