"""Users beside each other: jobs of the same name are two in hostd, on the wire and at the switch; and none has all."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.jobs.fork_server import ForkServer
from hostd.introspect.control import ask
from tests.hostd.cluster import SETTLED_S, Cluster, edit, fork_server, joined, reasons, reload
from tests.hostd.conftest import PORT, next_line, wait_until

__all__ = ["fork_server"]  # fixture

pytestmark = [pytest.mark.root, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
NOBODY, STRANGER = 65534, 65533  # the second has no entry in /etc/passwd


class Users:
    """Of a cluster with a switch and a hostd on h0, where processes of theirs send to h1."""

    def __init__(self, cluster: Cluster, more: str = "") -> None:
        self._cluster, self._processes = cluster, list["subprocess.Popen[str]"]()
        cluster.switchd()
        self.daemon = cluster.hostd(with_switch=True, more=more)
        self.daemon.await_hostd(connected=True)
        wait_until(lambda: "jobs register at" in self.daemon.log())
        self._socket = self.daemon.place / "jobs" / "hostd.sock"
        for parent in self._socket.parents:
            if parent.stat().st_mode & 0o777 == 0o700:
                parent.chmod(0o711)
        self._address = str(cluster.testbed.addresses.data["h1"])
        cluster.sink(self._address, PORT)

    def start(
        self, uid: int, *names: str, counted: int = 0, lies_s: int = 600, weight: str = ""
    ) -> "subprocess.Popen[str]":
        arguments = [str(uid), str(self._socket), self._address, str(PORT), str(counted), str(lies_s), *names]
        command = [
            "env",
            f"PACELINE_WEIGHT={weight}",
            sys.executable,
            "-m",
            "tests.hostd.tenants.bursting_job",
            *arguments,
        ]
        process = self._cluster.testbed.nodes["h0"].popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._cluster.ends_with_test(process)
        self._processes.append(process)
        assert next_line(process) == "started"
        return process

    def all_gone(self) -> None:
        for process in self._processes:
            process.kill()
        wait_until(lambda: self.daemon.status()["jobs"] == [], SETTLED_S)

    def switch_log(self) -> str:
        return (self._cluster.directory / "switchd-sw" / "log").read_text()

    def explain(self, text: str) -> dict[str, object]:
        return ask(self.daemon.place / "control.sock", "explain", flow=text)

    def is_granted(self, flow: str) -> bool:
        found = self.explain(flow)
        return bool(found.get("granted")) and found["decided_by"] == "sw"

    def weighs(self, name: str, weight: float) -> None:
        """A busy machine may make hostd learn a job twice: until it has."""
        wait_until(lambda: self.explain(name).get("weight") == weight, 2 * SETTLED_S)

    def paced(self, *names: str) -> None:
        wait_until(lambda: joined(self.daemon) >= {*names}, 2 * SETTLED_S)


@pytest.fixture(scope="module")
def users(fork_server: ForkServer) -> Iterator[Users]:
    with ExitStack() as stack:
        yield Users(Cluster(fork_server, stack), more="[quotas]\njobs = 2\n[weights]\nmost = 2.0\n")


def test_a_name_is_each_users_own(users: Users) -> None:
    users.start(NOBODY, "same", "other")
    users.paced("same", "other")
    assert users.explain("nobody/same")["job"] == "same"
    users.start(STRANGER, "same")
    users.paced("nobody/same", f"{STRANGER}/same", "other")
    for name in ("nobody/same", f"{STRANGER}/same"):
        assert not {"merged", "split"} & reasons(users.daemon, name).keys()

    for name in ("nobody/same", f"{STRANGER}/same"):  # the switch has answered for each
        wait_until(lambda name=name: users.is_granted(f"{name}/ring/h0>h1"), 2 * SETTLED_S)
    assert users.explain("same") == {"error": f"several users have a job 'same': {STRANGER}/same, nobody/same"}
    control = users.daemon.place / "control.sock"
    assert "several users have a job 'same'" in ask(control, "release", job="same")["error"]
    assert ask(control, "release", job=f"{STRANGER}/same")["job"] == f"{STRANGER}/same"
    assert joined(users.daemon) == {"nobody/same", "other"}
    [released] = [job for job in users.daemon.status()["jobs"] if job["name"] == f"{STRANGER}/same"]
    assert released["user"] == str(STRANGER) and "released" in {one["reason"] for one in released["not_paced"]}
    assert "look like one job" not in users.switch_log()
    listed = 'mode = "enforce"\njobs = ["nobody/same"]'
    edit(users.daemon, 'mode = "enforce"', listed)
    reload(users.daemon, "enforce with htb from now on")
    assert joined(users.daemon) == {"nobody/same"}
    assert "not_listed" in reasons(users.daemon, f"{STRANGER}/same") and "not_listed" in reasons(users.daemon, "other")
    edit(users.daemon, listed, 'mode = "enforce"')
    reload(users.daemon, "enforce with htb from now on")
    users.all_gone()


def test_a_job_counts_what_its_user_asks_for_and_the_operator_allows(users: Users) -> None:
    users.all_gone()
    users.start(NOBODY, "greedy", weight="4")
    users.start(STRANGER, "modest", weight="best-effort")
    users.weighs("greedy", 2.0)
    users.weighs("modest", 0.1)
    why = "it asks for 4, and [weights] in hostd's configuration says 2"
    wait_until(lambda: why in str(users.explain("greedy").get("why_weight")), 2 * SETTLED_S)

    def bids_by_weight() -> bool:
        found = users.explain("modest/ring/h0>h1")
        return bool(found.get("granted")) and found["bid"]["urgency"] == pytest.approx(
            0.1**0.5 * found["job"]["slowdown"]
        )

    wait_until(bids_by_weight, 2 * SETTLED_S)
    edit(users.daemon, "most = 2.0", "most = 3.0")
    reload(users.daemon, "enforce with htb from now on")
    users.weighs("greedy", 3.0)
    assert "refused" not in users.switch_log()
    users.all_gone()


def test_one_user_cannot_use_up_the_host(users: Users) -> None:
    """Of one user's jobs some are left to TCP, for their number or for what they count, and another user's is paced."""
    users.all_gone()
    crowd = users.start(NOBODY, "a", "b", "c")
    wait_until(lambda: len(joined(users.daemon)) == 2, 2 * SETTLED_S)
    liar = users.start(NOBODY, "liar", counted=10**9)
    users.start(STRANGER, "theirs")
    users.paced("theirs")
    [left] = {"a", "b", "c"} - joined(users.daemon)
    assert reasons(users.daemon, left)["over_quota"].startswith("its user has 2 jobs that are paced here, and may")
    wait_until(lambda: "counts 1000000" in str(users.daemon.status()["invisible"]), SETTLED_S)
    wait_until(lambda: not users.daemon.status()["switch"]["deciding_alone"], SETTLED_S)
    assert "refused" not in users.switch_log()
    for process in (crowd, liar):
        process.kill()
    wait_until(lambda: joined(users.daemon) == {"theirs"}, SETTLED_S)
    users.start(NOBODY, "d")
    users.paced("theirs", "d")
    users.all_gone()


def test_a_bad_number_costs_a_job_its_pacing_for_as_long_as_it_lasts(users: Users) -> None:
    users.all_gone()
    users.start(STRANGER, "theirs")
    users.start(NOBODY, "liar", counted=10**9, lies_s=2)
    wait_until(lambda: "counts 1000000" in str(users.daemon.status()["invisible"]), SETTLED_S)
    assert "liar" not in joined(users.daemon)
    users.paced("liar", "theirs")
    assert users.daemon.status()["invisible"] == {}
    assert "refused" not in users.switch_log()
    users.all_gone()
