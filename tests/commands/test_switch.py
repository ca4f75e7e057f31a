"""`paceline switch top` against real switches, and its heat map."""

import asyncio
import json
import subprocess
import sys

import pytest
from rich.console import Console

from paceline.commands.view.heat_map import heat_map, shade
from paceline.flowcore.model.topology import star
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import BadMessage
from paceline.wire.watching import LinkLoad, Snapshot, snapshot_of
from tests.switchd.fabric import Fabric, claim, flow
from tests.switchd.processes import ROOT

STAR = star(3, 1.0)


async def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "switch", "top", *arguments]
    options = {"capture_output": True, "text": True, "timeout": 60, "cwd": ROOT}
    return await asyncio.to_thread(lambda: subprocess.run(command, **options))


async def test_one_look(fabric) -> None:
    net: Fabric = await fabric(STAR)
    h0 = await net.joined("h0")

    async def go_on() -> None:
        while True:
            await h0.ask(claim(STAR, flow("a", "h0", "h1"), *[5e8] * 10))
            await asyncio.sleep(0.05)

    going = asyncio.create_task(go_on())
    seen = await top("--address", net.address("sw"), "--once", "--json")
    shown = await top("--address", net.address("sw"))  # not a terminal: one look as well
    going.cancel()
    assert (seen.returncode, seen.stderr) == (0, "")
    found = json.loads(seen.stdout)
    assert (found["switch"], found["hosts"], found["silent"]) == ("sw", ["h0"], [])
    links = {link["link"]: link for link in found["links"]}
    assert links.keys() == STAR.links.keys()
    assert links["h0->sw"]["load_bps"][0] == links["sw->h1"]["load_bps"][0] == 5e8
    assert (links["h0->sw"]["flows"], links["h1->sw"]["flows"]) == (1, 0)
    assert {"refused", "messages", "plans_refused", "version", "machine"} <= found.keys()
    assert shown.returncode == 0
    assert "▓▓" in next(line for line in shown.stdout.splitlines() if line.startswith("h0->sw"))


async def test_with_tls(fabric, certificates) -> None:
    net: Fabric = await fabric(STAR, certificates=certificates)
    mine = certificates("h0")
    files = ["--ca", str(mine.ca), "--certificate", str(mine.certificate), "--key", str(mine.key)]
    seen = await top("--address", net.address("sw"), "--switch", "sw", *files, "--json")
    assert (seen.returncode, seen.stderr) == (0, "")
    assert json.loads(seen.stdout)["switch"] == "sw"
    without = await top("--address", net.address("sw"), "--json")
    assert (without.returncode, without.stdout, without.stderr.count("\n")) == (2, "", 1)
    assert "or only with TLS" in without.stderr
    half = await top("--address", net.address("sw"), "--ca", str(mine.ca))
    assert half.stderr == "paceline: TLS needs all of --ca, --certificate and --key\n"


# ---- The heat map ----


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


def test_silent_switches_and_refusals_are_shown() -> None:
    lines = drawn(snapshot(hosts=(), silent=("edge0", "agg\x1b[31m"), refused={"shape": 3, "clock": 1}))
    assert lines[0] == r"tor0  slot 7  0 hosts  silent: edge0, agg\x1b[31m"
    assert lines[1].endswith("turned away: clock 1, shape 3")


def test_of_many_links_the_fullest_are_shown_in_order() -> None:
    links = [LinkLoad(f"l{n}", 1e9, (n * 1e8,), 1) for n in (1, 9, 2, 8, 3)]
    lines = drawn(snapshot(*links), most_links=2)
    assert [line.split()[0] for line in lines[4:6]] == ["l9", "l8"]
    assert lines[6] == "and 3 links with less on them"


@pytest.mark.parametrize(
    "wire",
    [
        pb.TableSnapshot(link=["a"], capacity_bps=[1.0], flows=[1], horizon=2, load_bps=[1.0]),
        pb.TableSnapshot(link=["a"], capacity_bps=[], flows=[1]),
        pb.TableSnapshot(link=["a"], capacity_bps=[1.0], flows=[]),
    ],
)
def test_malformed_snapshots_are_refused(wire: pb.TableSnapshot) -> None:
    with pytest.raises(BadMessage):
        snapshot_of(wire.SerializeToString())
    with pytest.raises(BadMessage):
        snapshot_of(b"\xff")
