import pickle
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.topology import Topology, UnknownHostError, clos, star, tree

few = st.integers(min_value=1, max_value=4)
topologies = st.one_of(
    st.builds(star, few, st.just(1.0)),
    st.builds(tree, few, few, few, st.just((1.0, 2.0, 4.0))),
    st.builds(clos, few, few, few, st.just((1.0, 2.0))),
)


def test_star() -> None:
    topology = star(3, 1.0)
    assert topology.hosts == ("h0", "h1", "h2")
    assert topology.switches == ("sw",)
    assert len(topology.links) == 6
    assert topology.path("h0", "h2", "any") == ("h0->sw", "sw->h2")
    assert set(topology.switch_of.values()) == {"sw"}


def test_tree_climbs_no_higher_than_needed() -> None:
    topology = tree(servers_per_tor=2, tors_per_edge=2, edges=2, link_gbps=(1.0, 2.0, 4.0))
    assert topology.switches == ("tor0", "tor1", "tor2", "tor3", "edge0", "edge1", "agg")
    assert topology.switch_of["h5"] == "tor2"
    assert topology.path("h0", "h1", "k") == ("h0->tor0", "tor0->h1")
    assert topology.path("h0", "h2", "k") == ("h0->tor0", "tor0->edge0", "edge0->tor1", "tor1->h2")
    assert topology.path("h1", "h7", "k") == (
        "h1->tor0",
        "tor0->edge0",
        "edge0->agg",
        "agg->edge1",
        "edge1->tor3",
        "tor3->h7",
    )


def test_tree_link_rates_by_tier() -> None:
    links = tree(2, 2, 2, (1.0, 2.0, 4.0)).links
    rates = {name: links[name].capacity_bps for name in ("h0->tor0", "tor0->h0", "tor1->edge0", "agg->edge1")}
    assert rates == {"h0->tor0": 1e9, "tor0->h0": 1e9, "tor1->edge0": 2e9, "agg->edge1": 4e9}


def test_clos_stays_below_the_spines_within_a_rack() -> None:
    topology = clos(servers_per_tor=2, tors=3, spines=2, link_gbps=(1.0, 4.0))
    assert topology.switches == ("tor0", "tor1", "tor2", "spine0", "spine1")
    assert topology.path("h2", "h3", "k") == ("h2->tor1", "tor1->h3")
    assert topology.links["spine1->tor2"].capacity_bps == 4e9
    assert len(topology.links) == 2 * (6 + 3 * 2)


def test_clos_spreads_flows_evenly_over_the_spines() -> None:
    topology = clos(1, 2, 4, (1.0, 1.0))
    spines = Counter(topology.path("h0", "h1", f"job{number}/ring/h0>h1")[1] for number in range(4000))
    assert len(spines) == 4
    assert all(850 < count < 1150 for count in spines.values())  # 5 standard deviations around 1000


def test_the_spine_of_a_flow_is_the_same_in_every_process() -> None:
    # hash() differs between interpreters; two daemons must not disagree about a flow's path.
    path = "clos(1, 2, 64, (1, 1)).path('h0', 'h1', 'a/ring/h0>h1')[1]"
    answers = {
        subprocess.run(
            [sys.executable, "-c", f"from paceline.flowcore.model.topology import clos; print({path})"],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert answers == {clos(1, 2, 64, (1, 1)).path("h0", "h1", "a/ring/h0>h1")[1]}


@given(topologies, st.data())
def test_a_path_is_connected_and_free_of_loops(topology: Topology, data: st.DataObject) -> None:
    src, dst = data.draw(st.sampled_from(topology.hosts)), data.draw(st.sampled_from(topology.hosts))
    key = data.draw(st.text(st.characters(exclude_categories=["Cs"])))
    links = [topology.links[name] for name in topology.path(src, dst, key)]
    if src == dst:
        assert links == []
        return
    nodes = [links[0].source, *(link.target for link in links)]
    assert (nodes[0], nodes[-1]) == (src, dst)
    assert [link.source for link in links] == nodes[:-1]
    assert len(set(nodes)) == len(nodes)
    assert not set(nodes[1:-1]) & set(topology.hosts)  # hosts do not forward


@given(topologies)
def test_links_are_full_duplex(topology: Topology) -> None:
    for name, link in topology.links.items():
        assert link.name == name == f"{link.source}->{link.target}"
        assert topology.links[f"{link.target}->{link.source}"].capacity_bps == link.capacity_bps
    sends = Counter(link.source for link in topology.links.values())
    assert all(sends[host] == 1 for host in topology.hosts)  # a host has its uplink and nothing else
    assert set(sends) == {*topology.hosts, *topology.switches}


@given(topologies)
def test_every_link_has_one_keeper_and_one_top_sees_them_all(topology: Topology) -> None:
    responsible = domains(topology)
    kept = Counter(link for domain in responsible.values() for link in domain.table_bps)
    assert kept == Counter(list(topology.links))
    assert all(host in responsible[tor].hosts for host, tor in topology.switch_of.items())
    tops = [domain for domain in responsible.values() if domain.parent is None]
    assert all(domain.scope_bps.keys() == topology.links.keys() for domain in tops)
    for domain in responsible.values():
        if domain.parent is not None:  # what a switch may arbitrate, its parent may too
            assert domain.scope_bps.keys() <= responsible[domain.parent].scope_bps.keys()


@given(topologies)
def test_racks_are_of_equal_size(topology: Topology) -> None:
    sizes = Counter(topology.switch_of[host] for host in topology.hosts)
    assert len(set(sizes.values())) == 1


@pytest.mark.parametrize("unknown", ["h3", "sw", "", "H0"])
def test_only_hosts_have_paths(unknown: str) -> None:
    for src, dst in ((unknown, "h0"), ("h0", unknown), (unknown, unknown)):
        with pytest.raises(UnknownHostError) as caught:
            star(3, 1.0).path(src, dst, "k")
        assert str(caught.value) == f"no host {unknown!r} in this star of 3 hosts"


def test_the_paper_cluster() -> None:
    topology = tree(10, 10, 10, (10.0, 20.0, 40.0))
    assert len(topology.hosts) == 1000
    assert len(topology.links) == 2 * (1000 + 100 + 10)
    assert len(topology.path("h0", "h999", "k")) == 6


def test_a_topology_travels_to_another_process() -> None:
    topology = clos(2, 2, 2, (1.0, 1.0))
    assert pickle.loads(pickle.dumps(topology)) == topology


def test_an_empty_or_dead_topology_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        star(0, 1.0)
    with pytest.raises(ValueError, match="faster than 0"):
        star(2, 0.0)
