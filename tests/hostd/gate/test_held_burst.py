"""A burst that is held goes when hostd dies or hangs; a job that is killed while it is held leaves nothing.

Real daemon, jobs of plain sockets: each of three sends for 0.3 s and computes for 0.1 s, so that one always waits.
The other host has no hostd: its ranks launch, and wait for those that are held here.
"""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from bench.jobs.daemons import DaemonProcess
from bench.jobs.process_group import ProcessGroup
from hostd.introspect.control import ask
from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.sockets import DataSocket, ProcessSockets
from nccl_shim.page.layout import ANY_PEER, State
from nccl_shim.page.reader import PageReader
from nccl_shim.segment.liveness import start_ticks
from nccl_shim.segment.memory_search import admit_memories
from nccl_shim.segment.reader import Reader
from tests.hostd.cluster import SETTLED_S, Cluster, cluster, fork_server, joined
from tests.hostd.conftest import wait_until

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = [pytest.mark.root, pytest.mark.slow]

SLOT_S = 0.06


class Gated:
    def __init__(self, cluster: Cluster, model_mb: float = 8.0, module: str | None = None) -> None:
        self.cluster = cluster
        self.daemon: DaemonProcess = cluster.hostd(backend="gate")
        wait_until(lambda: "jobs register at" in self.daemon.log())
        self.pages = self.daemon.place / "jobs" / "pages"
        self.group: ProcessGroup = cluster.jobs("a", "b", "c", model_mb=model_mb, registered=True, module=module)
        self.pids = {process.spec.job: process.pid for process in self.group.processes if process.spec.host == "h0"}

    def await_paced(self) -> None:
        self.cluster.run(self.group, lambda: joined(self.daemon) == {"a", "b", "c"}, 2 * SETTLED_S)

    def await_held(self) -> str:
        """A job whose burst is launched and held."""
        held: list[str] = []

        def one_is() -> bool:
            live = {job["name"] for job in self.daemon.status()["jobs"] if any(flow["live"] for flow in job["flows"])}
            held[:] = [job for job in live & self.pids.keys() if self.says(job) is State.HELD and not self.moves(job)]
            return bool(held)

        wait_until(one_is, 2 * SETTLED_S)
        return held[0]

    def says(self, job: str) -> State:
        pid = self.pids[job]
        reader = PageReader(self.pages / f"{pid}-{start_ticks(pid)}.page")
        try:
            return State(reader.look(ANY_PEER).state)
        finally:
            reader.close()

    def why(self, job: str) -> str:
        """It has the rate that it has, or none."""
        return str(ask(self.daemon.place / "control.sock", "explain", flow=f"{job}/ring/h0>h1").get("because"))

    def sockets(self, job: str) -> tuple[DataSocket, ...]:
        process = ProcessSockets(self.pids[job])
        process.look()
        return process.sockets

    def moves(self, job: str, within_s: float = 0.01) -> bool:
        meter, sockets = FlowMeter(), self.sockets(job)
        before = meter.read(sockets)
        time.sleep(within_s)
        return meter.read(sockets) > before

    def goes_after_s(self, job: str) -> float:
        began_s = time.monotonic()
        while not self.moves(job, 0.005):
            assert time.monotonic() < began_s + 5.0, "it is held for ever"
        return time.monotonic() - began_s


@pytest.fixture
def gated(cluster: Cluster) -> Iterator[Gated]:
    made = Gated(cluster)
    made.await_paced()
    yield made
    if made.daemon.process.poll() is None:
        made.daemon.signal(signal.SIGCONT)


def test_it_goes_when_hostd_hangs_or_dies_and_a_killed_job_leaves_nothing(gated: Gated) -> None:
    daemon = gated.daemon
    held = gated.await_held()
    wait_until(lambda: any("keeps its turn" in gated.why(job) for job in gated.pids), 2 * SETTLED_S)
    daemon.signal(signal.SIGSTOP)
    assert gated.goes_after_s(held) < 10 * SLOT_S
    daemon.signal(signal.SIGCONT)
    held = gated.await_held()
    os.kill(gated.pids[held], signal.SIGKILL)
    wait_until(lambda: str(gated.pids[held]) not in {path.name.split("-")[0] for path in gated.pages.iterdir()})
    del gated.pids[held]
    held = gated.await_held()
    os.kill(daemon.pid, signal.SIGKILL)
    assert gated.goes_after_s(held) < 10 * SLOT_S
    daemon.process.wait()
    assert "Traceback" not in daemon.log()
    daemon.start()
    daemon.await_hostd()
    assert not gated.pages.exists() or not [*gated.pages.iterdir()], "what the killed one left is removed"


def test_a_launch_over_nccl_is_held_and_seen_to_wait(cluster: Cluster) -> None:
    """Its bytes are nowhere yet: NCCL has not been told of them."""
    gated = Gated(cluster, 4.0, module="tests.hostd.nccl.gated_job")
    gated.await_paced()
    with Reader(cluster.directory / "h0") as reader:
        admit_memories(reader)

        def waiting() -> set[str]:
            at_gate = {view.host_pid for view in reader.poll() if view.snapshot.held_ns}
            return {job for job, pid in gated.pids.items() if pid in at_gate}

        seen: set[str] = set()

        def all_are_seen() -> bool:
            """At the gate before and after hostd says that their bytes wait."""
            before, status = waiting(), gated.daemon.status()["jobs"]
            live = {job["name"] for job in status if any(flow["live"] for flow in job["flows"])}
            seen.update(before & live & waiting())
            return len(seen) > 1

        wait_until(all_are_seen, 2 * SETTLED_S)
    held = gated.await_held()
    gated.daemon.signal(signal.SIGSTOP)
    assert gated.goes_after_s(held) < 10 * SLOT_S
    gated.daemon.signal(signal.SIGCONT)
