"""`paceline topology init` writes a file that `check` accepts, from what clusters already have."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.flowcore.model.topology_file import ClusterMap, parse_topology_file

CSV = """host,rack,speed,addresses
gpu-a,rack1,25,10.0.1.10 fd00::10
gpu-b,rack1,25Gbps,10.0.1.11
gpu-c,rack2,100G,10.0.2.10;10.244.3.0/24
# a bond, and a rail
gpu-d,rack1,10,10.0.1.13
gpu-d,rack1,10,10.0.9.13
gpu-d,rack2,40,10.0.2.13
rack1,core,100
rack2,core,0.4T
"""
SLURM = """# topology/tree
SwitchName=s0 Nodes=tux[0-2,7] LinkSpeed=900
SwitchName=s1 \\
    Nodes=gpu-[08-10],login
SwitchName=s2 Switches=s[0-1]
"""
LLDP_JSON = {
    "lldp": {
        "interface": [
            {
                "eth0": {
                    "via": "LLDP",
                    "chassis": {"tor1": {"id": {"type": "mac", "value": "00:11"}, "descr": "a switch"}},
                    "port": {
                        "id": {"type": "ifname", "value": "swp1"},
                        "auto-negotiation": {"current": "100GBASE-CR4"},
                    },
                }
            },
            {"eth1": {"chassis": {"tor2": {}}, "port": {}}},
            {"eth2": {"chassis": {"id": {"type": "mac", "value": "00:12"}}, "port": {}}},
        ]
    }
}
LLDP_KEYS = """lldp.bond.1.via=LLDP
lldp.eth0.chassis.name=tor1
lldp.eth0.port.auto-negotiation.current=10GigBaseSR - X Fiber
lldp.eth1.chassis.name=tor1
lldp.eth1.port.auto-negotiation.current=1000BaseTFD
"""


def node(name: str, number: int, **labels: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": f"10.244.{number}.0/24", "podCIDRs": [f"10.244.{number}.0/24", f"fd00:{number}::/64"]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.0.{number}"},
                {"type": "Hostname", "address": name},
            ]
        },
    }


def written(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> ClusterMap:
    assert main(["topology", "init", *map(str, arguments)]) == 0
    return parse_topology_file(capsys.readouterr().out, "written")


def test_from_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "racks.csv").write_text(CSV)
    cluster = written(capsys, "--csv", tmp_path / "racks.csv", "--listen", "{name}.mgmt:7470")
    topology = cluster.topology
    assert topology.hosts == ("gpu-a", "gpu-b", "gpu-c", "gpu-d")
    rates = {name: link.capacity_bps / 1e9 for name, link in topology.links.items()}
    assert {name: rate for name, rate in rates.items() if name.startswith(("gpu", "rack2->c"))} == {
        "gpu-a->rack1": 25, "gpu-b->rack1": 25, "gpu-c->rack2": 100, "gpu-d->rack1": 20, "gpu-d->rack2": 40,
        "rack2->core": 400,
    }  # fmt: skip
    assert cluster.addresses["gpu-d"] == ("10.0.1.13", "10.0.9.13") and topology.rails == {"gpu-d": {"nic1": "rack2"}}
    assert cluster.listen["rack2"] == "rack2.mgmt:7470"


def test_from_slurm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topology.conf").write_text(SLURM)
    cluster = written(capsys, "--slurm", tmp_path / "topology.conf", "--host-gbps", "25", "--uplink-gbps", "100")
    assert cluster.topology.hosts == ("tux0", "tux1", "tux2", "tux7", "gpu-08", "gpu-09", "gpu-10", "login")
    assert cluster.topology.switches == ("s2", "s0", "s1")
    assert cluster.addresses["gpu-09"] == ("gpu-09",), "its name, which is looked up"


def test_from_lldp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "h1.json").write_text(json.dumps(LLDP_JSON))
    (tmp_path / "h2.txt").write_text(LLDP_KEYS)
    files = [tmp_path / "h1.json", tmp_path / "h2.txt"]
    topology = written(capsys, "--lldp", *files, "--host-gbps", "50", "--uplink-gbps", "400").topology
    assert topology.rails == {"h1": {"eth1": "tor2"}}
    assert [link.capacity_bps for link in topology.nics("h1")] == [100e9, 50e9]
    assert [link.capacity_bps for link in topology.nics("h2")] == [11e9], "two cables to one switch are a bond"
    assert topology.parents["tor1"] == topology.parents["tor2"] == ("top",)


def test_from_kubernetes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine")
    ways = (("l1", "s1"), ("l1", "s1"), ("l2", "s1"), ("l3", "s2"))
    nodes = [node(f"n{number}", number, **dict(zip(keys, way, strict=True))) for number, way in enumerate(ways)]
    (tmp_path / "nodes.json").write_text(json.dumps({"items": nodes}))
    arguments = ("--kubernetes", tmp_path / "nodes.json", "--host-gbps", "100", "--uplink-gbps", "400,800")
    cluster = written(capsys, *arguments)
    assert cluster.topology.parents["l3"] == ("s2",) and cluster.topology.parents["s2"] == ("top",)
    assert cluster.topology.links["s1->top"].capacity_bps == 800e9
    assert cluster.addresses["n2"] == ("10.0.0.2", "10.244.2.0/24", "fd00:2::/64")
    cluster = written(capsys, *arguments, "--label", keys[1])
    assert cluster.topology.switch_of == {"n0": "s1", "n1": "s1", "n2": "s1", "n3": "s2"}


def test_it_is_written_to_a_file_and_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "racks.csv").write_text(CSV)
    arguments = ["topology", "init", "--csv", str(tmp_path / "racks.csv"), "--out", str(tmp_path / "t.toml")]
    assert main(arguments) == 0
    assert "good: 4 hosts (1 with several NICs) of 20 to 100 Gbit/s in 2 racks of 1 to 3" in capsys.readouterr().out
    assert main(arguments) == 2
    assert capsys.readouterr().err.endswith("t.toml: there is one; --force replaces it\n")
    assert main([*arguments, "--force"]) == 0


WRONG = {
    "no rack": ("--csv", "gpu-a,,25\n", (), "line 1: found no rack"),
    "no rate": ("--csv", "gpu-a,rack1\n", (), "line 1: it does not say how fast hosts' NICs are: --host-gbps N"),
    "a wrong rate": ("--csv", "gpu-a,rack1,fast\n", (), "line 1: speed: found 'fast', expected a rate"),
    "an unknown column": ("--csv", "host,cage,speed\n", (), "line 1: found column 'cage'"),
    "too many cells": ("--csv", "a,b,1,c,d,e\n", (), "line 1: found 6 cells"),
    "nothing": ("--csv", "# nothing\n", (), "found no line"),
    "two racks, no uplink": (
        "--csv",
        "a,r,1\nb,s,1\n",
        (),
        "nothing says how fast the uplink of r is: --uplink-gbps N",
    ),
    "an address twice": ("--csv", "a,r,1,10.0.0.1\nb,r,1,10.0.0.1\n", (), "found 10.0.0.1, which is a's already"),
    "below each other": ("--csv", "a,r,1\nr,s,1\ns,r,1\n", (), "in a circle"),
    "no such nodes": ("--slurm", "SwitchName=s0 Nodes=tux[5-0]\n", ("--host-gbps", "1"), "found [5-0]"),
    "no node": ("--slurm", "SwitchName=s0\n", ("--host-gbps", "1"), "found no node"),
    "no Slurm": ("--slurm", "hello\n", (), "line 1: found 'hello', expected KEY=VALUE"),
    "no LLDP": ("--lldp", "{}", (), "found no lldp.interface"),
    "no neighbour": ("--lldp", '{"lldp": {"interface": []}}', (), "found no neighbour"),
    "no nodes": ("--kubernetes", "[]", (), "expected kubectl get nodes -o json"),
    "no label": ("--kubernetes", json.dumps({"items": [node("n", 1)]}), ("--host-gbps", "1"), "--label KEY"),
    "another label": (
        "--kubernetes",
        json.dumps({"items": [node("n", 1)]}),
        ("--host-gbps", "1", "--label", "rack"),
        "found no label rack on node n",
    ),
    "no rate of nodes": ("--kubernetes", json.dumps({"items": [node("n", 1)]}), (), "--host-gbps N"),
    "a rate of nothing": ("--csv", "a,r,1\n", ("--uplink-gbps", "0"), "expected a rate"),
    "no text": ("--csv", b"\xff\xfe", (), "found no UTF-8 text"),
}


@pytest.mark.parametrize(("option", "content", "more", "said"), WRONG.values(), ids=WRONG)
def test_wrong_inputs_end_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    content: str | bytes,
    more: tuple[str, ...],
    said: str,
) -> None:
    path = tmp_path / "h.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["topology", "init", option, str(path), *more]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out
