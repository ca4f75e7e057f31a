"""hostd.toml and switchd.toml that leave the cluster to a topology file."""

from pathlib import Path

import pytest

from hostd.config import HostConfig, read_config
from paceline.flowcore.model.fields import InputError
from switchd.config import read_config as read_switch_config

EXAMPLE = Path(__file__).parents[3] / "deploy" / "topology.toml"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    text = EXAMPLE.read_text().replace('"gpu-c.example.org"', '"localhost.invalid"')
    (tmp_path / "topology.toml").write_text(text)
    return tmp_path


def config(place: Path, text: str) -> HostConfig:
    (place / "hostd.toml").write_text(text)
    return read_config(place / "hostd.toml")


def test_a_host_has_its_addresses_and_its_switch_from_the_file(place: Path) -> None:
    """One hostd.toml for all hosts, but for the name."""
    found = config(place, 'name = "gpu-a"\ntopology_file = "topology.toml"\nplaintext = true\n')
    assert (found.switch_name, found.switch, found.nic_bps) == ("rack1", "10.0.0.1:7470", 25e9)
    assert found.enforcement.addresses == {"10.0.1.10", "fd00:1::10"}
    assert (found.host_of["10.244.7.9"], found.host_of["10.2.0.13"]) == ("node-7", "gpu-d")
    assert len(found.unresolved) == 1 and found.unresolved[0].startswith("localhost.invalid ")
    other = config(
        place, f'name = "gpu-a"\nswitch = "10.9.9.9:1"\ntopology_file = "{place}/topology.toml"\nplaintext = true\n'
    )
    assert other.switch == "10.9.9.9:1", "the configuration comes first"


def test_a_host_with_rails_has_all_its_addresses_as_its_own(place: Path) -> None:
    found = config(place, 'name = "gpu-d"\ntopology_file = "topology.toml"\nplaintext = true\n')
    assert found.enforcement.addresses == {"10.1.0.13", "10.2.0.13"} and found.nic_bps == 100e9


def test_a_switch_has_its_address_and_its_parents_from_the_file(place: Path) -> None:
    (place / "rack2.toml").write_text('name = "rack2"\ntopology_file = "topology.toml"\nplaintext = true\n')
    found = read_switch_config(place / "rack2.toml")
    assert (found.listen, found.parents) == ("10.0.0.2:7470", {"core": "10.0.0.101:7470"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "gpu-x"\ntopology_file = "topology.toml"', "name: found 'gpu-x', expected a host of"),
        ('name = "gpu-a"\ntopology_file = 3', "topology_file: found 3, expected the path of a topology file"),
        ('name = "gpu-a"\ntopology_file = "topology.toml"', "switch: found '10.0.0.1:7470' without TLS"),
        ('name = "gpu-a"\ntopology_file = "topology.toml"\n[addresses]', "addresses: found a table, expected nothing"),
        ('name = "gpu-a"\ntopology_file = "topology.toml"\nnic_gbps = 1', "nic_gbps: found 1, expected nothing"),
    ],
)
def test_what_does_not_go_together_is_refused(place: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        config(place, text)
    assert said in str(refused.value)
