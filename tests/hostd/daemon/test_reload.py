"""SIGHUP: a valid change takes effect while jobs run, an invalid one changes nothing."""

import pytest

from hostd.introspect.control import ask
from tests.hostd.cluster import Cluster, cluster, edit, flows, fork_server, joined, reload

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

AS_BEFORE = "running as before"


def test_from_observing_to_enforcing_and_back(cluster: Cluster) -> None:
    group = cluster.jobs("a", "b")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd(mode="observe")
    cluster.run(group, lambda: [job["phase"] != "learning" for job in daemon.status()["jobs"]] == [True, True])

    edit(daemon, 'mode = "observe"', 'mode = "enforce"')
    reload(daemon, "enforce with htb from now on")
    assert joined(daemon) == {"a", "b"}, "they are known already, and need not be learned again"
    cluster.run(group, lambda: any(flow["live"] and flow["kernel_bps"] for flow in flows(daemon.status())))
    assert cluster.state(sockets) != before

    edit(daemon, 'mode = "enforce"', 'jobs = ["a"]\nmode = "enforce"')
    reload(daemon, "enforce with htb from now on")
    assert joined(daemon) == {"a"}
    edit(daemon, 'jobs = ["a"]', 'jobs = ["b"]')
    reload(daemon, "enforce with htb from now on")
    assert joined(daemon) == {"b"}

    edit(daemon, 'mode = "enforce"', 'mode = "observe"')
    reload(daemon, "observe with observe from now on")
    assert joined(daemon) == set()
    assert cluster.state(sockets) == before
    assert daemon.stop() == 0


def test_another_backend_has_the_limits_at_once(cluster: Cluster) -> None:
    group = cluster.jobs("a", "b")
    daemon = cluster.hostd(backend="htb")
    cluster.run(group, lambda: joined(daemon) == {"a", "b"})
    edit(daemon, 'backend = "htb"', 'backend = "pacing"')
    reload(daemon, "enforce with pacing from now on")
    assert daemon.status()["backend"] == "pacing"
    cluster.run(group, lambda: any(flow["live"] and flow["kernel_bps"] for flow in flows(daemon.status())))
    assert daemon.status()["fail_opens"] == 0


def test_the_command_line_comes_before_the_file(cluster: Cluster) -> None:
    daemon = cluster.hostd(backend="htb", start=False)
    daemon.argv += ["--backend", "pacing", "--takeover"]
    cluster.start(daemon)
    assert daemon.status()["backend"] == "pacing"
    edit(daemon, 'backend = "htb"', 'backend = "observe"')
    reload(daemon, "enforce with pacing from now on")


def test_what_is_wrong_or_fixed_is_refused(cluster: Cluster) -> None:
    daemon = cluster.hostd()
    before = daemon.status()
    good = daemon.config_path.read_text()
    for old, new, said in (
        ('mode = "enforce"', 'mode = "force"', "mode"),
        ('name = "h0"', 'name = "h1"', "name cannot change while hostd runs"),
        ("length_ms = 60.0", "length_ms = 20.0", "slots cannot change while hostd runs"),
        ('mode = "enforce"', "= broken", "no TOML"),
    ):
        edit(daemon, old, new)
        reload(daemon, AS_BEFORE)
        assert said in daemon.log().splitlines()[-1]
        daemon.config_path.write_text(good)
    daemon.config_path.unlink()
    reload(daemon, AS_BEFORE)
    after = daemon.status()
    assert (after["mode"], after["backend"], after["guardian_pid"]) == (
        before["mode"], before["backend"], before["guardian_pid"],
    )  # fmt: skip


def test_a_reload_ends_a_release(cluster: Cluster) -> None:
    group = cluster.jobs("a")
    sockets = cluster.sockets(group)
    before = cluster.state(sockets)
    daemon = cluster.hostd()
    cluster.run(group, lambda: joined(daemon) == {"a"})
    assert ask(daemon.place / "control.sock", "release") == {"released": True, "problems": {}}
    assert cluster.state(sockets) == before
    cluster.pause(group, 0.5)
    assert cluster.state(sockets) == before, "nothing is set until an operator says so"
    reload(daemon, "enforce with htb from now on")
    assert cluster.state(sockets) != before
