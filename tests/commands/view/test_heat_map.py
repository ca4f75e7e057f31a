"""The heat map of a switch's table."""

import pytest
from rich.console import Console

from paceline.commands.view.heat_map import heat_map, shade
from paceline.wire.watching import LinkLoad, Snapshot


def snapshot(*links: LinkLoad, **fields: object) -> Snapshot:
    known = {"switch": "tor0", "slot": 7, "slot_length_ns": 60_000_000, "links": links, "hosts": ("h0",)}
    known |= {"silent": (), "refused": {}, "messages": 5, "plans_refused": 2}
    return Snapshot(**(known | fields))


def drawn(one: Snapshot, most_links: int | None = None) -> list[str]:
    console = Console(width=100, color_system=None, file=None)
    with console.capture() as text:
        console.print(heat_map(one, most_links))
    return [line.rstrip() for line in text.get().splitlines()]


@pytest.mark.parametrize(
    ("ratio", "step"), [(0.0, 0), (-1.0, 0), (1e-9, 1), (0.24, 1), (0.25, 2), (0.5, 3), (0.75, 4), (1.0, 4), (9.0, 4)]
)
def test_shades(ratio: float, step: int) -> None:
    assert shade(ratio) == step


def test_the_heat_map() -> None:
    lines = drawn(snapshot(LinkLoad("h0->tor0", 10e9, (10e9, 6e9, 3e9, 1e9, 0.0), 12)))
    assert lines[0] == "tor0  slot 7  1 host"
    assert lines[1] == "5 messages  2 plans refused"
    assert lines[3].split() == ["link", "Gbit/s", "flows", "now", "next", "300", "ms"]
    assert lines[4].split() == ["h0->tor0", "10", "12", "100%", "██▓▓▒▒░░"]


def test_cross_traffic_has_a_column_where_there_is_any() -> None:
    lines = drawn(snapshot(LinkLoad("h0->tor0", 10e9, (8e9,), 1, 3e9), LinkLoad("h1->tor0", 10e9, (0.0,), 0)))
    assert lines[3].split()[:5] == ["link", "Gbit/s", "flows", "others", "now"]
    assert lines[4].split()[:5] == ["h0->tor0", "10", "1", "30%", "80%"]
    assert lines[5].split()[:4] == ["h1->tor0", "10", "0", "0%"]


def test_silent_switches_and_refusals_are_shown() -> None:
    lines = drawn(snapshot(hosts=(), silent=("edge0", "agg\x1b[31m"), refused={"shape": 3, "clock": 1}))
    assert lines[0] == r"tor0  slot 7  0 hosts  silent: edge0, agg\x1b[31m"
    assert lines[1].endswith("turned away: clock 1, shape 3")


def test_of_many_links_the_fullest_are_shown_in_order() -> None:
    links = [LinkLoad(f"l{n}", 1e9, (n * 1e8,), 1) for n in (1, 9, 2, 8, 3)]
    lines = drawn(snapshot(*links), most_links=2)
    assert [line.split()[0] for line in lines[4:6]] == ["l9", "l8"]
    assert lines[6] == "and 3 links with less on them"
