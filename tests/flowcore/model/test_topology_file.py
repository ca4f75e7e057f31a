"""Topology files: what real clusters are like, and every wrong one in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.topology import Topology, UnknownHostError, clos, tree
from paceline.flowcore.model.topology_file import parse_topology_file

SMALL = """
version = 1
[switches]
core = {listen = "10.0.0.3:7470"}
rack1 = {parents = ["core"], gbps = 100, listen = "10.0.0.1:7470"}
rack2 = {parents = ["core"], gbps = 40}
[hosts]
gpu-a = {switch = "rack1", gbps = 25, addresses = ["10.0.1.10", "fd00:0::10", "10.244.3.0/24", "gpu-a.example.org"]}
gpu-b = {nics = [
    {switch = "rack1", gbps = 100, addresses = ["10.1.0.11"]},
    {name = "rail1", switch = "rack2", gbps = 200, addresses = "10.2.0.11"},
]}
gpu-c = {nics = [{switch = "rack1", gbps = 100}, {name = "rail1", switch = "rack2", gbps = 100}]}
"""
RACKS = "version = 1\n[switches]\n{}\n[hosts]\n{}\n"


def parsed(text: str = SMALL) -> Topology:
    return parse_topology_file(text, "t.toml").topology


def test_hosts_have_names_racks_speeds_and_addresses_of_their_own() -> None:
    cluster = parse_topology_file(SMALL, "t.toml")
    topology = cluster.topology
    assert topology.hosts == ("gpu-a", "gpu-b", "gpu-c")
    assert topology.switches == ("core", "rack1", "rack2")
    assert topology.links["gpu-a->rack1"].capacity_bps == 25e9
    assert topology.links["core->rack2"].capacity_bps == 40e9
    assert cluster.addresses["gpu-a"] == ("10.0.1.10", "fd00::10", "10.244.3.0/24", "gpu-a.example.org")
    assert cluster.addresses["gpu-b@rail1"] == ("10.2.0.11",)
    assert cluster.listen == {"core": "10.0.0.3:7470", "rack1": "10.0.0.1:7470"}


def test_a_flow_takes_the_rail_of_the_address_it_goes_to() -> None:
    topology = parsed()
    assert topology.path("gpu-b", "gpu-c", "") == ("gpu-b->rack1", "rack1->gpu-c")
    assert topology.path("gpu-b", "gpu-c@rail1", "") == ("gpu-b->rack2", "rack2->gpu-c")
    assert topology.path("gpu-a", "gpu-b@rail1", "") == ("gpu-a->rack1", "rack1->core", "core->rack2", "rack2->gpu-b")
    assert [link.name for link in topology.nics("gpu-b")] == ["gpu-b->rack1", "gpu-b->rack2"]
    with pytest.raises(UnknownHostError, match="gpu-a@rail1"):
        topology.path("gpu-b", "gpu-a@rail1", "")


def test_all_nics_of_a_host_are_in_the_table_of_its_home() -> None:
    """The host reports to one switch, which a claim on any of its uplinks must reach."""
    found = domains(parsed())
    assert {"gpu-b->rack1", "gpu-b->rack2"} <= found["rack1"].table_bps.keys()
    assert "rack2->gpu-b" in found["rack2"].table_bps
    assert found["rack1"].hosts == {"gpu-a", "gpu-b", "gpu-c"} and not found["rack2"].hosts


def test_racks_may_be_of_any_depth() -> None:
    """A rack right below the core, and one below a pod."""
    switches = 'core = {}\npod = {parents = ["core"], gbps = 4}\nnear = {parents = ["core"], gbps = 2}\n'
    switches += 'far = {parents = ["pod"], gbps = 2}'
    hosts = "\n".join(f'{host} = {{switch = "{switch}", gbps = 1}}' for host, switch in (("n", "near"), ("f", "far")))
    topology = parsed(RACKS.format(switches, hosts))
    assert topology.path("n", "f", "") == ("n->near", "near->core", "core->pod", "pod->far", "far->f")
    assert topology.path("f", "n", "") == ("f->far", "far->pod", "pod->core", "core->near", "near->n")


def test_a_rack_that_lost_an_uplink_meets_the_others_at_a_spine_of_both() -> None:
    switches = 's0 = {}\ns1 = {}\ns2 = {}\nr0 = {parents = ["s0", "s1", "s2"], gbps = [1, 2, 3]}\n'
    switches += 'r1 = {parents = ["s0", "s2"], gbps = 1}'
    topology = parsed(RACKS.format(switches, 'a = {switch = "r0", gbps = 1}\nb = {switch = "r1", gbps = 1}'))
    assert topology.links["r0->s1"].capacity_bps == 2e9
    middles = {topology.path("a", "b", str(key))[1] for key in range(50)}
    assert middles == {"r0->s0", "r0->s2"}


@pytest.mark.parametrize("kind", [tree(2, 2, 2, (1.0, 2.0, 4.0)), clos(3, 3, 2, (1.0, 2.0))], ids=["tree", "clos"])
def test_what_a_scenario_has_written_as_a_file_has_the_same_paths(kind: Topology) -> None:
    def line(node: str, key: str) -> str:
        rate = kind.links[f"{node}->{kind.parents[node][0]}"].capacity_bps / 1e9 if node in kind.parents else 0
        names = ", ".join(f'"{parent}"' for parent in kind.parents.get(node, ()))
        value = names if key == "switch" else f"[{names}]"
        return f"{node} = {{{key} = {value}, gbps = {rate}}}" if rate else f"{node} = {{}}"

    switches = "\n".join(line(switch, "parents") for switch in kind.switches)
    topology = parsed(RACKS.format(switches, "\n".join(line(host, "switch") for host in kind.hosts)))
    assert topology.links == kind.links
    for source in kind.hosts:
        for target in kind.hosts:
            for key in ("x", "y"):
                assert topology.path(source, target, key) == kind.path(source, target, key)


WRONG = {
    "no TOML": ("version = ", "the file: found no TOML"),
    "no version": (SMALL.replace("version = 1", ""), "version: found nothing, expected 1"),
    "no hosts": (SMALL[: SMALL.index("gpu-a")], "hosts: found a table, expected one host or more"),
    "no switches": ("version = 1\n[hosts]\n", "switches: found nothing"),
    "an unknown switch": (
        SMALL.replace('"rack1", gbps = 25', '"rack9", gbps = 25'),
        "hosts.gpu-a: found switch 'rack9'",
    ),
    "an unknown parent": (
        SMALL.replace('["core"], gbps = 40', '["cor"], gbps = 40'),
        "rack2.parents: found switch 'cor'",
    ),
    "a circle": (SMALL.replace("core = {", 'core = {parents = ["rack1"], gbps = 1, '), "expected switches further up"),
    "its own parent": (SMALL.replace('["core"], gbps = 40', '["rack2"], gbps = 40'), "expected switches further up"),
    "two tops": (SMALL.replace('parents = ["core"], gbps = 40', ""), "switches: found rack1 below core, and rack2"),
    "no speed": (SMALL.replace("gbps = 25, ", ""), "hosts.gpu-a.gbps: found nothing"),
    "no speed of an uplink": (SMALL.replace(", gbps = 40", ""), "switches.rack2.gbps: found nothing"),
    "speed of nothing": (
        SMALL.replace("gbps = 40", "gbps = 0"),
        "switches.rack2.gbps: found 0, expected a number from",
    ),
    "too many speeds": (
        SMALL.replace("gbps = 40", "gbps = [1, 2]"),
        "rack2.gbps: found a list of 2, expected a rate, or 1",
    ),
    "an address twice": (SMALL.replace("10.2.0.11", "10.0.1.10"), "hosts.gpu-b: found 10.0.1.10, which is gpu-a's"),
    "a mistyped address": (SMALL.replace("10.0.1.10", "10.0.1.300"), "gpu-a.addresses[0]: found '10.0.1.300'"),
    "a network with a host": (
        SMALL.replace("10.244.3.0/24", "10.244.3.1/24"),
        "gpu-a.addresses[2]: found '10.244.3.1/24'",
    ),
    "a NIC without a name": (
        SMALL.replace('name = "rail1", switch = "rack2", gbps = 200', 'switch = "rack2", gbps = 2'),
        "gpu-b.nics: found a list of 2, expected a `name`",
    ),
    "two NICs to one switch": (SMALL.replace('"rack2", gbps = 200', '"rack1", gbps = 200'), "are a bond"),
    "an unknown key": (SMALL.replace("gbps = 25", "speed = 25"), "hosts.gpu-a.speed: found an unknown key"),
    "a name with a slash": (SMALL.replace("gpu-a = ", '"gpu/a" = '), "hosts.gpu/a: found 'gpu/a', expected a name"),
    "a host called as a switch": (SMALL.replace("gpu-a = ", "rack1 = "), "hosts.rack1: found the name of a switch"),
    "a listen without port": (SMALL.replace("10.0.0.3:7470", "10.0.0.3"), "switches.core.listen: found '10.0.0.3'"),
    "racks that nothing connects": (
        RACKS.format(
            'a = {}\nb = {}\nr = {parents = ["a", "b"], gbps = 1}\ns = {parents = ["a"], gbps = 1}\n'
            't = {parents = ["r"], gbps = 1}\nu = {parents = ["s"], gbps = 1}',
            'x = {switch = "t", gbps = 1}\ny = {switch = "u", gbps = 1}\nz = {switch = "a", gbps = 1}',
        ),
        "switches: found nothing connects x and z",
    ),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_topology_file(text, "t.toml")
    assert str(refused.value).startswith("t.toml: ") and said in str(refused.value) and "\n" not in str(refused.value)


@given(
    st.text(max_size=300) | st.sampled_from(SMALL.splitlines()).flatmap(lambda line: st.just(SMALL.replace(line, "")))
)
def test_any_text_is_a_topology_or_one_line(text: str) -> None:
    try:
        topology = parse_topology_file(text, "t.toml").topology
    except InputError as error:
        assert "\n" not in str(error)
    else:
        for target in topology.hosts:
            topology.path(topology.hosts[0], target, "")
