"""However hostd ends or hangs, its flows run free within ten slots and the kernel is as it was before.

The configuration believes in a link of a twentieth of the real one, so that the jobs are held at 5 % of the link.
"""

import os
import signal
import socket
from pathlib import Path

import pytest

from bench.jobs.daemons import DaemonProcess
from bench.jobs.process_group import ProcessGroup
from hostd.address_book import AddressBook
from hostd.config import HostConfig
from hostd.daemon import HostDaemon
from hostd.kernel.netlink import Netlink
from hostd.kernel.qdisc_tree import delete_root
from paceline.flowcore.model.topology import star_of
from tests.hostd.cluster import LINK_GBPS, Cluster, cluster, edit, flows, fork_server, joined
from tests.hostd.conftest import wait_until

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

SLOT_MS = 100.0
TEN_SLOTS_S = 10 * SLOT_MS / 1e3
HELD_PART = 0.05
HELD_BPS = HELD_PART * LINK_GBPS * 1e9
FAULTY = Path(__file__).with_name("faulty_hostd.py")


class Held:
    def __init__(self, cluster: Cluster, tmp_path: Path, backend: str) -> None:
        self.cluster, self.fault = cluster, tmp_path / "fault"
        self.group: ProcessGroup = cluster.jobs("a", "b", model_mb=2.5)
        self.sockets = cluster.sockets(self.group)
        self.before = cluster.state(self.sockets)
        self.daemon: DaemonProcess = cluster.hostd(backend=backend, slot_ms=SLOT_MS, start=False)
        self.daemon.argv[1:3] = [str(FAULTY), str(self.fault)]
        edit(self.daemon, f"link_gbps = {LINK_GBPS}", f"link_gbps = {HELD_PART * LINK_GBPS}")
        cluster.start(self.daemon)
        self.await_held()

    def await_held(self) -> None:
        """Until every flow that sends has a limit in the kernel, no more than hostd believes the link to have."""

        def held() -> bool:
            rates = [flow["kernel_bps"] for flow in flows(self.daemon.status()) if flow["live"]]
            return bool(rates) and all(rate is not None and rate <= 1.1 * HELD_BPS for rate in rates)

        self.cluster.run(self.group, lambda: joined(self.daemon) == {"a", "b"})
        self.cluster.run(self.group, held)
        assert self.state() != self.before

    def state(self) -> object:
        return self.cluster.state(self.sockets)

    def is_free_within(self, limit_s: float) -> None:
        assert wait_until(lambda: self.state() == self.before) < limit_s
        sent = self.sent_bytes()
        self.cluster.pause(self.group, 1.0)
        assert self.sent_bytes() - sent > 2 * HELD_BPS / 8, "they still send at the rate they were held at"

    def sent_bytes(self) -> int:
        return self.cluster.testbed.link_bytes()["h0->sw"]


@pytest.fixture
def held(cluster: Cluster, tmp_path: Path) -> Held:
    return Held(cluster, tmp_path, "htb")


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_killed(cluster: Cluster, tmp_path: Path, backend: str) -> None:
    held = Held(cluster, tmp_path, backend)
    sent = held.sent_bytes()
    held.cluster.pause(held.group, 1.0)
    assert held.sent_bytes() - sent < 3 * HELD_BPS / 8, "held, give or take what a second is on a busy machine"
    held.daemon.process.kill()
    held.is_free_within(TEN_SLOTS_S)
    wait_until(lambda: "hostd ended without giving its lease back" in held.daemon.log())


def test_stopped_and_continued(held: Held) -> None:
    held.daemon.signal(signal.SIGSTOP)
    held.is_free_within(TEN_SLOTS_S)
    held.daemon.signal(signal.SIGCONT)
    held.await_held()
    status = held.daemon.status()
    assert status["fail_opens"] == 1 and status["missed_slots"] > 5
    assert not any("root qdisc" in one for one in status["troubles"]), "nothing was set under the lease that was lost"
    assert "beginning anew" in held.daemon.log()
    assert "every limit was lifted: nothing heard from hostd for" in held.daemon.log(), "the guardian says what it did"
    assert held.daemon.stop() == 0
    assert held.state() == held.before


def test_a_fault_in_the_loop(held: Held) -> None:
    held.fault.touch()
    held.daemon.process.wait(TEN_SLOTS_S + 10)
    assert held.daemon.process.returncode == 1
    held.is_free_within(TEN_SLOTS_S)
    assert "a fault in the loop" in held.daemon.log()


def test_the_guardian_killed_first(held: Held) -> None:
    guardian = held.daemon.status()["guardian_pid"]
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: held.daemon.status()["guardian_pid"] != guardian)
    assert held.state() != held.before, "its successor watches over the same limits"
    assert "and another one watches now" in held.daemon.log()
    held.daemon.process.kill()
    held.is_free_within(TEN_SLOTS_S)


def test_another_program_cuts_the_undo_log_short(held: Held) -> None:
    """It could not be played back: hostd begins anew with another one, before it may have to be."""
    path = held.daemon.place / "lease.json"
    os.truncate(path, path.stat().st_size // 2)
    held.cluster.run(held.group, lambda: held.daemon.status()["fail_opens"] == 1)
    held.await_held()
    held.daemon.process.kill()
    held.is_free_within(TEN_SLOTS_S)


def test_another_program_deletes_the_root(held: Held) -> None:
    """As `tc qdisc del dev eth0 root` does."""
    with held.cluster.testbed.nodes["h0"].enter(), Netlink() as netlink:
        netlink.ask(delete_root(held.cluster.testbed.nodes["h0"].index_of("eth0"), 0))
    held.cluster.run(held.group, lambda: any("deleted" in one for one in held.daemon.status()["troubles"]))
    held.await_held()
    assert held.daemon.stop() == 0 and "Traceback" not in held.daemon.log()
    assert held.state() == held.before


def test_an_operators_release_waits_for_a_hostd_that_hangs(cluster: Cluster) -> None:
    """The guardian has lifted everything by then; awake again, hostd begins anew and hears that it must not."""
    daemon = cluster.hostd(slot_ms=SLOT_MS)
    daemon.signal(signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX) as operator:
        operator.connect(str(daemon.place / "control.sock"))
        operator.sendall(b'{"command": "release"}\n')
    wait_until(lambda: not (daemon.place / "lease.json").exists())
    daemon.signal(signal.SIGCONT)
    wait_until(lambda: daemon.status()["released"])
    assert not (daemon.place / "lease.json").exists()


async def test_the_guardian_hears_from_hostd_before_anything_else_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And with it hostd hears whether it still has a lease."""
    directories = {"runtime_directory": tmp_path, "shim_directory": tmp_path}
    daemon = HostDaemon(HostConfig("h0", star_of(("h0", "h1"), 1.0), AddressBook({}), mode="advise", **directories))
    await daemon.startup()
    done: list[str] = []
    for owner, what in ((daemon._enforcer, "beat"), (daemon._monitor, "poll"), (daemon._driver, "judge")):
        monkeypatch.setattr(owner, what, lambda *_, what=what, **__: done.append(what) or [])
    daemon._do_what_is_due()
    assert done == ["beat", "poll", "judge"]
    await daemon.shutdown()
