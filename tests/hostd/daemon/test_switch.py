"""A switch that dies and returns: hostd decides alone meanwhile, in every slot, and comes back by itself."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from bench.jobs.process_group import ProcessGroup
from hostd.address_book import AddressBook
from hostd.config import HostConfig
from hostd.daemon import HostDaemon
from hostd.introspect.status import status as status_of
from paceline.flowcore.messages.events import FlowReady, JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.topology import star
from paceline.service.lifecycle import Requests, serve
from paceline.wire import control_pb2 as pb
from switchd.handshake import Handshake
from tests.hostd.cluster import Cluster, cluster, fork_server, joined
from tests.switchd.fabric import Fabric, until

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root


def test_switchd_killed_and_restarted(cluster: Cluster) -> None:
    group = cluster.jobs("a", "b")
    local = cluster.hostd()
    cluster.run(group, lambda: joined(local) == {"a", "b"})
    local_mode_s = _mean_iteration_s(cluster, group, 3.0)
    assert local.stop() == 0
    switch = cluster.switchd()
    daemon = cluster.hostd(with_switch=True)
    cluster.run(group, lambda: joined(daemon) == {"a", "b"} and not daemon.status()["switch"]["deciding_alone"])
    missed = daemon.status()["missed_slots"]

    switch.signal(signal.SIGKILL)
    switch.process.wait()
    without_s = _mean_iteration_s(cluster, group, 3.0)  # from the first moment on
    assert daemon.status()["switch"]["deciding_alone"] and daemon.status()["switch"]["why"]
    assert daemon.status()["backend"] == "htb", "its limits stay in force"

    switch.start()
    again_s = _mean_iteration_s(cluster, group, 3.0)
    cluster.run(group, lambda: not daemon.status()["switch"]["deciding_alone"])
    status = daemon.status()
    # A busy machine may cost a slot or two, an outage would cost dozens.
    assert status["missed_slots"] - missed <= 3
    assert status["fail_opens"] == 0 and status["troubles"] == {}
    assert max(without_s, again_s) < 1.15 * local_mode_s, "no job slower than in local mode, as far as 3 s can tell"


@pytest.mark.parametrize(
    ("options", "theirs"), [({"slot_ms": 50.0}, "60 ms"), ({"policy": "mlcc"}, "'paceline'")], ids=["slots", "policy"]
)
def test_a_switch_with_other_terms_is_not_listened_to(cluster: Cluster, options: dict[str, Any], theirs: str) -> None:
    """With a job that has something to say in every iteration."""
    cluster.switchd()
    group = cluster.jobs("a")
    daemon = cluster.hostd(with_switch=True, **options)
    cluster.run(group, lambda: "configure the same" in daemon.status()["switch"]["why"] and joined(daemon) == {"a"})
    said = daemon.log()
    cluster.pause(group, 1.0)
    status = daemon.status()["switch"]
    assert "this switch" in status["why"] and theirs in status["why"]
    assert status["deciding_alone"] and not status["connected"]
    assert daemon.log() == said, "once is enough"


async def test_a_switch_that_does_not_compare_terms_hears_no_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Handshake.check_hello

    def lax(handshake: Handshake, hello: pb.Hello, *others: Any) -> str:
        return right(handshake, pb.Hello(name=hello.name, protocol=hello.protocol), *others)

    monkeypatch.setattr(Handshake, "check_hello", lax)
    topology = star(2, 1.0)
    flow = FlowId("a", "h0", "h1", Role.RING)
    net = Fabric(topology, policy="mlcc")
    await net.start()
    config = HostConfig(
        "h0", topology, AddressBook({}), switch=net.address("sw"), mode="advise", runtime_directory=tmp_path
    )
    daemon, requests = HostDaemon(config), Requests()
    serving = asyncio.create_task(serve(daemon, requests))
    try:
        await until(lambda: daemon._link is not None and "policy mlcc" in daemon._link.view().why_not)
        daemon._driver.take(JobJoined("a", (FlowSpec(flow, 1e7, (), 0.0),)), FlowReady(flow, 0))
        slot = net.slot("sw")
        await until(lambda: net.slot("sw") > slot + 2)
        assert daemon.view().agent.isolated and net.switch("sw").messages == 0
        assert "configure the same" in status_of(daemon.view())["switch"]["why"]
    finally:
        requests.stop.set()
        await serving
        await net.close()


def _mean_iteration_s(cluster: Cluster, group: ProcessGroup, duration_s: float) -> float:
    before = sum(len(process.numbers) for process in group.processes)
    cluster.pause(group, duration_s)
    return duration_s * len(group.processes) / max(1, sum(len(process.numbers) for process in group.processes) - before)
