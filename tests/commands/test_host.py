"""probe, status, top, explain and release, with a daemon that has jobs and without one."""

import json

import pytest

from hostd.safety.undo import SysctlUndo
from hostd.safety.undo_log import UndoLog
from paceline import cli
from paceline.commands.host import _bottleneck, rate
from tests.hostd.cluster import Cluster, cluster, flows, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.main([str(argument) for argument in arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_host_with_jobs(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    group = cluster.jobs("a", "b")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd()
    where = ("--runtime-directory", daemon.place)
    cluster.run(group, lambda: joined(daemon) == {"a", "b"})
    cluster.run(group, lambda: any(flow["live"] for flow in flows(daemon.status())))

    status = json.loads(said(capsys, "status", "--json", *where))
    assert {"jobs", "switch", "backend", "mode", "missed_slots", "decision_ms", "troubles"} <= status.keys()
    assert [job["name"] for job in status["jobs"]] == ["a", "b"]
    flow = flows(status)[0]
    assert {"flow", "requested_bps", "kernel_bps", "achieved_bps", "live", "sockets"} <= flow.keys()
    for command in (("status",), ("top", "--once")):
        text = said(capsys, *command, *where)
        assert "h0: enforce by htb, policy paceline, deciding alone" in text and "ring/h0>h1" in text
        assert all(len(line) <= 80 for line in text.splitlines())

    name = flow["flow"]
    why = json.loads(said(capsys, "explain", name, "--json", *where))
    assert {"because", "path", "decided_by", "bottleneck", "dependency", "slots", "bid", "at_floor"} <= why.keys()
    text = said(capsys, "explain", name, *where)
    assert name in text and "because" in text and "h0->sw" in text

    bottlenecks: list[str] = []  # it is known while the flow sends

    def bottleneck_was_named() -> bool:
        explained = said(capsys, "explain", name, *where).splitlines()
        bottlenecks.extend(line for line in explained if line.startswith("bottleneck "))
        return any("h0->sw at price" in line for line in bottlenecks)

    cluster.run(group, bottleneck_was_named)
    assert all("h0->sw at price" in line or "not known: it has nothing to send" in line for line in bottlenecks)
    assert cli.main(["explain", "no/such/flow", *map(str, where)]) != 0
    assert name in capsys.readouterr().err, "it says which there are"

    assert json.loads(said(capsys, "release", "--all", "--json", *where)) == {"released_by": "hostd", "problems": {}}
    assert cluster.state(sockets) == before
    assert json.loads(said(capsys, "status", "--json", *where))["released"] is True


def test_release_says_what_could_not_be_restored(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = cluster.hostd(start=False)
    with cluster.testbed.nodes["h0"].enter():
        UndoLog(daemon.place / "lease.json").record({"stubborn": SysctlUndo("/etc/passwd", "x")})
    cluster.start(daemon)
    for _ in range(2):  # asked again, it tries again
        assert cli.main(["release", "--all", "--runtime-directory", str(daemon.place)]) == 1
        assert capsys.readouterr().out == "could not restore stubborn: no network sysctl: /etc/passwd\n"


def test_release_without_a_daemon_uses_the_journal(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    place = cluster.directory / "run"
    place.mkdir()
    assert "nothing to lift" in said(capsys, "release", "--all", "--runtime-directory", place)
    (place / "lease.json").write_text("nonsense")
    assert cli.main(["release", "--all", "--runtime-directory", str(place)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("command", [["status"], ["top", "--once"], ["explain", "a/ring/h0>h1"]])
def test_without_a_daemon_it_is_one_line(command: list[str], tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command, "--runtime-directory", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "is it running?" in err and len(err.splitlines()) == 1


def test_release_wants_all_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["release"]) == 2
    assert "--all" in capsys.readouterr().err


def test_probe_says_what_works_and_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "probe", "--json"))
    assert {backend["name"] for backend in found["backends"]} == {"htb", "pacing", "throttle", "gate", "observe"}
    assert found["chosen"] in {backend["name"] for backend in found["backends"] if backend["usable"]}
    assert all(backend["reason"] for backend in found["backends"])
    assert f"hostd would use {found['chosen']}" in said(capsys, "probe")


def test_a_flow_that_is_only_watched_cannot_be_explained(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    group = cluster.jobs("a")
    daemon = cluster.hostd(mode="observe")
    cluster.run(group, lambda: flows(daemon.status()))
    assert cli.main(["explain", "a/ring/h0>h1", "--runtime-directory", str(daemon.place)]) == 2
    assert "only watched: nothing is decided in mode observe" in capsys.readouterr().err


def test_a_bottleneck_in_words() -> None:
    known = {"link": "sw->h1", "links": ["sw->h1"], "price": 0.85, "room_bps": 1.5e8, "why": "narrow"}
    assert _bottleneck(known) == "sw->h1 at price 0.85, 150 Mbit/s left by others (narrow)"
    assert _bottleneck({**known, "link": None, "links": ["a", "b"], "price": None}).startswith("one of a, b, 150")
    assert _bottleneck({**known, "links": [], "why": "it rests"}) == "not known: it rests"


def test_rates_in_words() -> None:
    assert [rate(None), rate(2.5e9), rate(1e6)] == ["unlimited", "2.50 Gbit/s", "1 Mbit/s"]
