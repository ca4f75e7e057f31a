"""The emulated network: over which links bytes go, how fast, and that nothing stays behind."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.testbed import network
from bench.testbed.impair import Impairment
from bench.testbed.network import CONTROL_IFNAME, DATA_IFNAME, Testbed
from bench.testbed.routes import detours, flows_in, paths_of
from paceline.failure import Failure
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import parse_scenario
from paceline.flowcore.model.topology import Topology, clos, star, tree
from paceline.flowcore.model.units import PAYLOAD_SHARE
from tests.bench.testbed.traffic import TIMEOUT_S, Transfer, send

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
NOISE_BYTES = 20_000  # address resolution, acknowledgements
SLOW_GBPS = 0.1  # slow enough for any machine to keep up with
TOPOLOGIES = [star(3, 1.0), tree(1, 2, 2, [1.0, 1.0, 1.0]), clos(1, 3, 2, [1.0, 1.0])]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.kind)
def test_bytes_take_the_path_of_the_topology(topology: Topology) -> None:
    flows = [FlowId("a", topology.hosts[0], target, Role.RING) for target in topology.hosts[1:]]
    flows += [FlowId("a", flow.target, flow.source, Role.RING) for flow in flows]
    with Testbed(topology, paths=paths_of(topology, flows)) as testbed:
        for flow in flows:
            before = testbed.link_bytes()
            assert send(testbed, flow.source, flow.target, 1_000_000).received_bytes == 1_000_000
            carried = {link: count - before[link] for link, count in testbed.link_bytes().items()}
            path = topology.path(flow.source, flow.target, str(flow))
            assert {link for link, count in carried.items() if count >= 1_000_000} == set(path)
            back = topology.path(flow.target, flow.source, str(flow._replace(source=flow.target, target=flow.source)))
            idle = carried.keys() - {*path, *back}
            assert all(carried[link] < NOISE_BYTES for link in idle)


def test_flows_of_one_pair_share_a_way_and_are_named_where_flowcore_parts_them() -> None:
    scenario = parse_scenario((ROOT / "scenarios/clos.toml").read_text(), "clos.toml")
    flows = flows_in(scenario)
    topology = scenario.topology
    assert len(flows) == len({(flow.source, flow.target) for flow in flows})
    assert detours(topology, flows) == []
    first = flows[0]
    others = [first._replace(job=name) for name in "bcdefgh"]
    way = topology.path(first.source, first.target, str(first))
    parted = [other for other in others if topology.path(first.source, first.target, str(other)) != way]
    assert detours(topology, [first, *others]) == parted != []


@pytest.mark.parametrize("control", ["reno", "cubic", "bbr"])
def test_both_ends_use_the_congestion_control_of_the_route(control: str) -> None:
    with Testbed(star(2, 1.0), control) as testbed:
        assert send(testbed, "h0", "h1", 1000).congestion_control == (control, control)


@pytest.mark.parametrize(
    ("link", "pairs"),
    [("h0->sw", [("h0", "h1"), ("h0", "h2")]), ("sw->h2", [("h0", "h2"), ("h1", "h2")])],
    ids=["uplink", "downlink"],
)
def test_a_link_carries_its_capacity_and_no_more(link: str, pairs: list[tuple[str, str]]) -> None:
    """Two transfers that share nothing but the link."""
    transfers: list[Transfer] = []

    def transfer(pair: tuple[str, str]) -> None:
        transfers.append(send(testbed, *pair, 5_000_000))

    with Testbed(star(3, SLOW_GBPS), "reno") as testbed:
        threads = [threading.Thread(target=transfer, args=(pair,)) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        capacity_bps = testbed.topology.links[link].capacity_bps
    elapsed_s = max(each.ended_s for each in transfers) - min(each.started_s for each in transfers)
    together_bps = 8 * 10_000_000 / elapsed_s
    assert 0.6 < together_bps / (capacity_bps * PAYLOAD_SHARE) < 1.05


def test_a_link_between_switches_limits_too() -> None:
    with Testbed(tree(1, 2, 1, [1.0, SLOW_GBPS, 1.0])) as testbed:
        rate_bps = send(testbed, "h0", "h1", 5_000_000).rate_bps
    assert 0.75 < rate_bps / (SLOW_GBPS * 1e9 * PAYLOAD_SHARE) < 1.05


def test_the_root_qdisc_of_a_host_is_left_to_hostd() -> None:
    with Testbed(star(2, 1.0)) as testbed:
        host = testbed.nodes["h0"]
        kinds = [qdisc.get_attr("TCA_KIND") for qdisc in host.netlink.get_qdiscs(index=host.index_of(DATA_IFNAME))]
        assert kinds == ["noqueue"]


def test_control_has_a_network_of_its_own() -> None:
    with Testbed(tree(1, 2, 1, [1.0, 1.0, 1.0])) as testbed:
        before = testbed.link_bytes()
        for child, parent in (("h0", "tor0"), ("tor0", "edge0"), ("edge0", "agg")):
            with testbed.nodes[parent].enter():
                listener = socket.create_server((str(testbed.addresses.control[parent].ip), 0))
            with listener, testbed.nodes[child].enter():
                connection = socket.create_connection(listener.getsockname(), timeout=TIMEOUT_S)
            connection.close()
        limited = [
            qdisc.get_attr("TCA_KIND")
            for node in ("h0", "tor0")
            for qdisc in testbed.nodes[node].netlink.get_qdiscs(index=testbed.nodes[node].index_of(CONTROL_IFNAME))
        ]
        assert limited == ["noqueue", "noqueue"]
        assert all(count - before[link] < NOISE_BYTES for link, count in testbed.link_bytes().items())


TCP_INFO_BYTES, RETRANSMITTED, DELIVERED_CE = 232, 100, 196  # struct tcp_info: total_retrans, delivered_ce


@pytest.mark.parametrize(
    ("impairment", "lost", "marked"),
    [(Impairment(), False, False), (Impairment(loss=0.02), True, False), (Impairment(marks=0.02), False, True)],
    ids=["none", "loss", "marks"],
)
def test_loss_and_marks_reach_tcp(impairment: Impairment, lost: bool, marked: bool) -> None:
    with Testbed(star(2, 1.0), "reno", impairment=impairment) as testbed:
        with testbed.nodes["h1"].enter():
            listener = socket.create_server((str(testbed.addresses.data["h1"]), 0))
        with testbed.nodes["h0"].enter():
            sender = socket.create_connection(listener.getsockname(), timeout=TIMEOUT_S)
        receiver, _ = listener.accept()
        with listener, sender, receiver:
            receiver.settimeout(TIMEOUT_S)
            for _ in range(40):  # small enough that the buffer of the port never overflows
                sender.sendall(bytes(50_000))
                left = 50_000
                while left:
                    left -= len(receiver.recv(left))
            info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    retransmitted, marks = (struct.unpack_from("=I", info, offset)[0] for offset in (RETRANSMITTED, DELIVERED_CE))
    assert (marks > 0) == marked
    # 28 packets in expectation; TCP probes with a packet of its own where an acknowledgement is late.
    assert (retransmitted >= 8) == lost


@pytest.mark.parametrize("loss", [-0.1, 1.0, float("nan")])
def test_an_impairment_is_a_probability(loss: float) -> None:
    with pytest.raises(ValueError, match="expected a probability"):
        Impairment(loss=loss)


def namespaces_held() -> Iterator[str]:
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("net:["):
            yield target


def state() -> tuple[int, list[str], list[tuple[int, str]]]:
    """Open descriptors, namespaces among them, devices where we are."""
    return len(list(Path("/proc/self/fd").iterdir())), list(namespaces_held()), socket.if_nameindex()


def test_twenty_rounds_leave_nothing() -> None:
    before = state()
    for _ in range(20):
        with Testbed(star(3, 1.0)) as testbed:
            assert len(list(namespaces_held())) == 5  # three hosts, a switch, the control network
            assert send(testbed, "h0", "h2", 10_000).received_bytes == 10_000
    assert state() == before


@pytest.mark.parametrize("known", [False, True], ids=["refused by us", "refused by the kernel"])
def test_a_network_that_cannot_be_built_leaves_nothing(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    monkeypatch.setattr(network, "has_congestion_control", lambda name: known)
    before = list(namespaces_held())
    with pytest.raises(Failure, match="the kernel refuses" if known else "this kernel has no"):
        Testbed(star(2, 1.0), "no-such-congestion-control")
    assert list(namespaces_held()) == before
