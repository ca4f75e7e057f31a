"""Two daemons that read the topology at different times agree, unless one of them contradicts the other."""

import pytest

from paceline.flowcore.model.topology import Topology, wired
from paceline.flowcore.model.uplinks import disagreement, uplinks

CABLES = {
    "rack1": [("core", 100.0)],
    "rack2": [("core", 40.0)],
    "a": [("rack1", 25.0)],
    "b": [("rack1", 25.0), ("rack2", 25.0)],
}


def topology(**changed: list[tuple[str, float]]) -> Topology:
    cables = {name: above for name, above in (CABLES | changed).items() if above}
    hosts = [name for name in cables if not name.startswith(("rack", "pod"))]
    switches = ["core", *(name for name in cables if name not in hosts)]
    rails = {name: {"r1": above[1][0]} for name, above in cables.items() if name in hosts and len(above) > 1}
    return wired(hosts, switches, cables, rails)


def test_uplinks_are_the_cables_up_to_the_top() -> None:
    assert sorted(uplinks(topology(), "b")) == [
        ("b", ("rack1", "rack2"), (25e9, 25e9)),
        ("rack1", ("core",), (100e9,)),
        ("rack2", ("core",), (40e9,)),
    ]
    assert uplinks(topology(), "core") == ()


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"c": [("rack1", 10.0)]},
        {"rack3": [("core", 10.0)], "d": [("rack3", 10.0)]},
        {"a": []},
        {"rack2": [("core", 1.0)]},
    ],
    ids=["nothing", "a host", "a rack", "a host gone", "elsewhere"],
)
def test_what_was_added_or_is_elsewhere_is_no_disagreement(changed: dict[str, list[tuple[str, float]]]) -> None:
    old, new = topology(b=[("rack1", 25.0)]), topology(**{"b": [("rack1", 25.0)]} | changed)
    assert disagreement(new, uplinks(old, "b")) == disagreement(old, uplinks(new, "b")) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"a": [("rack1", 10.0)]}, "the cable from a to rack1 has 10 Gbit/s there, and 25 Gbit/s here"),
        ({"a": [("rack2", 25.0)]}, "a is below rack2 there, and below rack1 here"),
        ({"rack1": [("core", 400.0)]}, "the cable from rack1 to core has 400 Gbit/s there, and 100 Gbit/s here"),
        ({"pod": [("core", 400.0)], "rack1": [("pod", 100.0)]}, "rack1 is below pod there, and below core here"),
    ],
)
def test_another_speed_or_parent_is_one(changed: dict[str, list[tuple[str, float]]], said: str) -> None:
    assert disagreement(topology(), uplinks(topology(**changed), "a")) == said
