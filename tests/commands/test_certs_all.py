"""`paceline certs issue-all`: the certificates of a whole cluster, from a file that is there already."""

import json
from pathlib import Path

import pytest

from paceline import cli
from paceline.commands.fleet_names import names_in

TOPOLOGY = '[topology]\nkind = "clos"\nservers_per_tor = 2\ntors = 2\nspines = 1\nlink_gbps = [10, 40]\n'
HOSTD = f'name = "h0"\n{TOPOLOGY}[addresses]\nh0 = "10.0.0.1"\nh1 = ["10.0.0.2", "fd00::2"]\n'
SWITCHD = f'name = "tor0"\nlisten = "10.0.9.1:7470"\n{TOPOLOGY}[parents]\nspine0 = "[fd00::9]:7470"\n'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert cli.main(["certs", "init", str(tmp_path / "certs")]) == 0
    return tmp_path / "certs"


def issued(directory: Path, path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[set[str], set[str]]:
    capsys.readouterr()
    assert cli.main(["certs", "issue-all", str(directory), str(path), "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    return {one["name"] for one in found["made"]}, set(found["kept"])


def test_of_a_topology(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hostd.toml"
    path.write_text(HOSTD)
    every = {"h0", "h1", "h2", "h3", "tor0", "tor1", "spine0"}
    assert issued(directory, path, capsys) == (every, set())
    assert issued(directory, path, capsys) == (set(), every), "a second time, and nothing is left to be made"
    path.write_text(HOSTD.replace("servers_per_tor = 2", "servers_per_tor = 3"))
    assert issued(directory, path, capsys)[0] == {"h4", "h5"}, "hosts that were added"
    path.write_text(HOSTD.replace('"10.0.0.1"', '"10.0.0.77"'))
    assert issued(directory, path, capsys)[0] == {"h0"}, "one that has another address now"
    assert issued(directory, path, capsys, "--renew-days", "366")[0] == every
    assert issued(directory, path, capsys, "--force")[0] == every


def test_names_and_addresses(tmp_path: Path) -> None:
    path = tmp_path / "switchd.toml"
    path.write_text(SWITCHD)
    found = names_in(path)
    assert (found["tor0"], found["spine0"], found["h0"]) == (("10.0.9.1",), ("fd00::9",), ())
    text = tmp_path / "hosts.csv"
    text.write_text("# the second row\nnode1,10.0.0.1, 10.0.0.2\nnode2   # no address\n\n")
    assert names_in(text) == {"node1": ("10.0.0.1", "10.0.0.2"), "node2": ()}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.toml", 'name = "h0"', "topology: found nothing"),
        ("a.toml", "= no", "no TOML"),
        ("hosts", "", "found no name"),
        ("hosts", "h0\nh0", "line 2: found 'h0' a second time"),
        ("hosts", "h0\nbad_/name", "found name 'bad_/name'"),
        ("hosts", "h0\nh1 not!an!address", "found --address 'not!an!address'"),
        ("hosts", "\udcff", "no UTF-8"),
    ],
)
def test_what_is_wrong_makes_nothing(
    directory: Path, tmp_path: Path, name: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(content, errors="surrogateescape")
    assert cli.main(["certs", "issue-all", str(directory), str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line and {file.stem for file in directory.iterdir()} == {"ca"}


def test_of_a_topology_file_and_of_a_configuration_that_names_one(tmp_path: Path) -> None:
    text = 'version = 1\n[switches]\ntor = {listen = "10.0.9.1:7470"}\n[hosts]\n'
    text += 'gpu-a = {switch = "tor", gbps = 1, addresses = ["10.0.0.1", "10.244.0.0/24", "gpu-a.example.org"]}\n'
    (tmp_path / "topology.toml").write_text(text)
    (tmp_path / "hostd.toml").write_text('name = "gpu-a"\ntopology_file = "topology.toml"\n')
    expected = {"gpu-a": ("10.0.0.1", "gpu-a.example.org"), "tor": ("10.0.9.1",)}
    assert names_in(tmp_path / "topology.toml") == names_in(tmp_path / "hostd.toml") == expected
