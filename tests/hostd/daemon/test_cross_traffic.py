"""Beside cross traffic: real daemons, jobs' sockets and a cubic flow on one switch port."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from bench.jobs.daemons import PORT, DaemonProcess
from bench.jobs.fork_server import ForkServer
from bench.jobs.process_group import ProcessGroup
from bench.micro.weight import streaming
from hostd.congestion.weighted import NAME
from hostd.enforce.own_link import MUCH
from hostd.enforce.socket_options import SO_PRIORITY
from hostd.enforce.transport import TCP_CONGESTION
from hostd.introspect.control import ask
from hostd.kernel.calls import counters_of, get_option
from hostd.kernel.sockets import DataSocket
from paceline.flowcore.model.background import FIRST
from tests.hostd.cluster import Cluster, fork_server, joined

__all__ = ["fork_server"]

pytestmark = pytest.mark.root

WINDOWS = 4  # one in which the machine was not too busy will do: a control that does not work does so in none


@contextmanager
def cubic_flow(cluster: Cluster, source: str = "h2") -> Iterator[Callable[[], int]]:
    """To h1; gives what has arrived."""
    with ExitStack() as stack:
        address = (str(cluster.testbed.addresses.data["h1"]), 9000)
        with cluster.testbed.nodes["h1"].enter():
            listener = stack.enter_context(socket.create_server(address))
        with cluster.testbed.nodes[source].enter():
            sender = stack.enter_context(socket.create_connection(address))
        receiver = stack.enter_context(listener.accept()[0])
        yield stack.enter_context(streaming(sender, receiver))


def control_of(one: DataSocket) -> str:
    return get_option(one, *TCP_CONGESTION, 16).rstrip(b"\0").decode()


def part_of_port(
    cluster: Cluster, group: ProcessGroup, one: DataSocket, arrived: Callable[[], int], lasts_s: float
) -> float:
    """The socket's, of what it and the cubic flow get."""
    sent = lambda: counters_of([one])[0].acked_bytes  # type: ignore[union-attr] # noqa: E731
    before = sent(), arrived()
    cluster.pause(group, lasts_s)
    own, other = sent() - before[0], arrived() - before[1]
    return own / (own + other)


@pytest.fixture
def cluster(fork_server: ForkServer) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(fork_server, stack, hosts=3)


def with_switch(cluster: Cluster, more: str = "") -> list[DaemonProcess]:
    """Two hosts of it."""
    cluster.switchd(more=more)
    daemons = [cluster.hostd(host, with_switch=True) for host in ("h0", "h1")]
    for daemon in daemons:
        daemon.await_hostd(connected=True)
    return daemons


def test_training_first_and_its_control_does_not_outlive_hostd(cluster: Cluster) -> None:
    daemons = with_switch(cluster, 'background = "training-first"')
    group = cluster.jobs("a", model_mb=6.0, compute_s=0.01)
    [one] = cluster.sockets(group)
    assert control_of(one) == "cubic"
    explained = daemons[0].place / "control.sock"
    cluster.run(group, lambda: ask(explained, "explain", flow="a/ring/h0>h1").get("stands_for") == FIRST)
    assert control_of(one).startswith(NAME)
    with cubic_flow(cluster) as arrived:
        cluster.pause(group, 0.5)
        parts = list[float]()
        while not any(abs(part - FIRST / (FIRST + 1)) < 0.1 for part in parts) and len(parts) < WINDOWS:
            parts.append(part_of_port(cluster, group, one, arrived, 1.5))
        assert abs(parts[-1] - FIRST / (FIRST + 1)) < 0.1, parts
        daemons[0].signal(signal.SIGKILL)
        cluster.run(group, lambda: control_of(one) == "cubic")


def links_of_switch(cluster: Cluster, group: ProcessGroup) -> dict[str, dict[str, Any]]:
    """What `paceline switch top` shows of each link."""
    address = f"{cluster.testbed.addresses.control['sw'].ip}:{PORT}"
    argv = [sys.executable, "-m", "paceline", "switch", "top", "--address", address, "--once", "--json"]
    looking = cluster.testbed.nodes["sw"].popen(argv, env=dict(os.environ), stdout=subprocess.PIPE)
    cluster.ends_with_test(looking)
    cluster.run(group, lambda: looking.poll() is not None)
    assert looking.stdout is not None
    return {link["link"]: link for link in json.loads(looking.stdout.read())["links"]}


@pytest.mark.slow
def test_what_others_send_is_load_in_the_switchs_table(cluster: Cluster) -> None:
    """From the device's counters to the room that the job's flow is told of, and back when they have ended."""
    daemons = with_switch(cluster)
    group = cluster.jobs("a", model_mb=6.0, compute_s=0.01)
    link_bps = cluster.topology.links["h0->sw"].capacity_bps

    def room() -> float:
        """Of the link, as the switch tells the job's flow: the most in a slot."""
        explained = ask(daemons[0].place / "control.sock", "explain", flow="a/ring/h0>h1")
        return max((slot["available_bps"] for slot in explained.get("slots") or ()), default=0.0) / link_bps

    cluster.run(group, lambda: room() == 1.0)
    with cubic_flow(cluster, source="h0"):
        near_half = lambda bps: bps == pytest.approx(link_bps / 2, rel=0.3)  # noqa: E731
        cluster.run(group, lambda: abs(room() - 0.5) < 0.1)
        cluster.run(group, lambda: near_half(daemons[0].status()["cross_traffic_load_bps"].get("eth0", 0.0)))
        cluster.run(group, lambda: near_half(links_of_switch(cluster, group)["h0->sw"]["others_bps"]))
        links = links_of_switch(cluster, group)
        assert links["h0->sw"]["load_bps"][-1] >= links["h0->sw"]["others_bps"]
        assert links["h1->sw"]["others_bps"] < MUCH * link_bps
    cluster.run(group, lambda: room() == 1.0)


def test_on_the_jobs_own_host_others_have_the_part_of_a_connection(cluster: Cluster) -> None:
    """Without a class of their own HTB would serve them first (hostd/enforce/own_link.py)."""
    daemons = with_switch(cluster)
    group = cluster.jobs("a", model_mb=6.0, compute_s=0.01)
    [one] = cluster.sockets(group)
    with cubic_flow(cluster, source="h0") as arrived:
        cluster.pause(
            group, 4.5
        )  # a second to tell that they are of no job; the first beside a class is only looked at
        assert abs(part_of_port(cluster, group, one, arrived, 3.0) - 0.5) < 0.1
        assert [daemon.status()["cross_traffic_connections"] for daemon in daemons] == [{"eth0": 1}, {}]


def test_beside_a_job_that_is_left_to_tcp_a_job_is_in_no_class_and_beside_foreign_traffic_it_is(
    cluster: Cluster,
) -> None:
    daemons = with_switch(cluster)
    group = cluster.jobs("a", model_mb=6.0, compute_s=0.01)
    [one] = cluster.sockets(group)
    is_in_a_class = lambda: bool(int.from_bytes(get_option(one, *SO_PRIORITY, 4), "little"))  # noqa: E731
    both = cluster.jobs("b", model_mb=6.0, compute_s=0.01)
    cluster.run(both, lambda: all(joined(daemon) == {"a", "b"} for daemon in daemons))
    cluster.run(both, is_in_a_class)
    for daemon in daemons:
        ask(daemon.place / "control.sock", "release", job="b")
    cluster.run(both, lambda: not is_in_a_class())
    inside = 0
    for _ in range(20):
        cluster.pause(both, 0.15)
        inside += is_in_a_class()
    assert inside <= 6, "but for a burst after it has joined again, because it seemed to send another size"
    with cubic_flow(cluster, source="h0"):
        cluster.run(both, lambda: is_in_a_class() and daemons[0].status()["cross_traffic_connections"].get("eth0"))
    cluster.run(both, lambda: not is_in_a_class())
