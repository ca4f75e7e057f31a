"""The next hop of a message."""

from collections import Counter

import pytest

from paceline.flowcore.model.topology import Topology, clos, tree, wired
from switchd.routing import RoutingTable

CLOS = clos(1, 60, 4, (1.0, 1.0))
SPINES = {"spine0", "spine1", "spine2", "spine3"}
TORS = [f"tor{n}" for n in range(60)]


def next_hops(routes: RoutingTable, live: set[str]) -> dict[str, str | None]:
    return {tor: routes.next_hop(tor, live) for tor in TORS[1:]}


def test_spines_share_what_is_relayed() -> None:
    relayed = Counter(next_hops(RoutingTable(CLOS, "tor0"), SPINES).values())
    assert relayed.keys() == SPINES
    assert max(relayed.values()) <= 2 * len(TORS) / len(SPINES)


def test_only_the_messages_of_a_lost_spine_take_another_way() -> None:
    routes = RoutingTable(CLOS, "tor0")
    before, after = next_hops(routes, SPINES), next_hops(routes, SPINES - {"spine0"})
    moved = {tor for tor in before if before[tor] != after[tor]}
    assert moved == {tor for tor, spine in before.items() if spine == "spine0"}
    assert len({after[tor] for tor in moved}) > 1  # divided among the rest
    assert next_hops(RoutingTable(CLOS, "tor0"), SPINES) == before  # nothing is random


def test_all_senders_agree_and_a_parent_is_reached_directly() -> None:
    for sender in ("tor1", "tor2"):
        routes = RoutingTable(CLOS, sender)
        assert routes.next_hop("tor0", SPINES) == RoutingTable(CLOS, "tor3").next_hop("tor0", SPINES)
        assert all(routes.next_hop(spine, SPINES) == spine for spine in SPINES)
        assert routes.next_hop("spine0", SPINES - {"spine0"}) is None
        assert routes.unreachable(set()) == set(CLOS.switches) - {sender}
        assert routes.unreachable({"spine3"}) == SPINES - {"spine3"}


@pytest.mark.parametrize(
    ("topology", "switch", "below"),
    [
        (CLOS, "spine2", dict.fromkeys(TORS, 1)),
        (CLOS, "tor0", {}),
        (tree(3, 2, 2, (1.0, 1.0, 1.0)), "agg", {"edge0": 6, "edge1": 6}),
        (tree(3, 2, 2, (1.0, 1.0, 1.0)), "edge1", {"tor2": 3, "tor3": 3}),
    ],
)
def test_the_hosts_below_each_child(topology: Topology, switch: str, below: dict[str, int]) -> None:
    assert RoutingTable(topology, switch).hosts_below == below


RACKS = ("rack0", "rack1")
PODS = {"pod0": [("core", 10.0)], "pod1": [("core", 10.0)]}
CABLES = PODS | {rack: [("pod0", 5.0), ("pod1", 5.0)] for rack in RACKS}
TWO_PODS = wired(["a", "b"], ["core", *PODS, *RACKS], CABLES | {"a": [("rack0", 1.0)], "b": [("rack1", 1.0)]}, {})


def test_a_rack_below_two_pods_is_reached_by_way_of_either() -> None:
    core = RoutingTable(TWO_PODS, "core")
    assert all(core.on_reverse_path(pod, rack) for pod in PODS for rack in RACKS)
    assert {core.next_hop("rack0", {pod}) for pod in PODS} == set(PODS) and core.next_hop("rack0", set()) is None
    assert core.next_hop("pod0", {"pod1"}) is None
    assert core.hosts_below == dict.fromkeys(PODS, 2)


def test_a_rail_switch_has_the_hosts_below_that_have_a_nic_there() -> None:
    leaves = {"leaf0": [("core", 5.0)], "leaf1": [("core", 5.0)]}
    hosts = {"a": [("leaf0", 1.0), ("leaf1", 1.0)], "b": [("leaf0", 1.0), ("leaf1", 1.0)]}
    rails = {host: {"r1": "leaf1"} for host in hosts}
    topology = wired([*hosts], ["core", *leaves], leaves | hosts, rails)
    assert RoutingTable(topology, "core").hosts_below == {"leaf0": 2, "leaf1": 2}
