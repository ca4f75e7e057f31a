"""`paceline switch top` against real switches."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.commands import authority
from paceline.flowcore.model.topology import star
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import BadMessage
from paceline.wire.watching import snapshot_of
from tests.switchd.conftest import certificates, fabric
from tests.switchd.fabric import Fabric, claim, flow
from tests.switchd.processes import ROOT

__all__ = ["certificates", "fabric"]  # fixtures

pytestmark = pytest.mark.slow

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


async def test_with_a_wrong_ca_or_name_it_is_said_that_it_is(fabric, certificates, tmp_path: Path) -> None:
    """And not that no switch listens."""
    net: Fabric = await fabric(STAR, certificates=certificates)
    authority.init(tmp_path, days=2, force=False, now=authority.utc_now())
    authority.issue(tmp_path, "h0", (), days=1, force=False, now=authority.utc_now())
    theirs = [f"--ca={tmp_path}/ca.crt", f"--certificate={tmp_path}/h0.crt", f"--key={tmp_path}/h0.key"]
    seen = await top("--address", net.address("sw"), "--switch", "sw", *theirs)
    assert seen.returncode == 2 and "the certificate of sw is refused here: unable to get local issuer" in seen.stderr
    mine = certificates("h0")
    files = [f"--ca={mine.ca}", f"--certificate={mine.certificate}", f"--key={mine.key}"]
    seen = await top("--address", net.address("sw"), "--switch", "tor9", *files)
    assert seen.returncode == 2 and "the certificate of tor9 is refused here: Hostname mismatch" in seen.stderr
    stranger = [f"--ca={mine.ca}", *theirs[1:]]
    seen = await top("--address", net.address("sw"), "--switch", "sw", *stranger)
    assert seen.returncode == 2 and "sw refuses this end's certificate" in seen.stderr
    assert seen.stderr.count("\n") == 1
    gone = await top("--address", "127.0.0.1:1")
    assert gone.stderr == "paceline: no switch listens on 127.0.0.1:1\n"


async def test_with_tls(fabric, certificates) -> None:
    net: Fabric = await fabric(STAR, certificates=certificates)
    mine = certificates("h0")
    files = ["--ca", str(mine.ca), "--certificate", str(mine.certificate), "--key", str(mine.key)]
    seen = await top("--address", net.address("sw"), "--switch", "sw", *files, "--json")
    assert (seen.returncode, seen.stderr) == (0, "")
    assert json.loads(seen.stdout)["switch"] == "sw"
    without = await top("--address", net.address("sw"), "--json")
    assert (without.returncode, without.stdout, without.stderr.count("\n")) == (2, "", 1)
    assert "speaks with TLS only; TLS needs --ca, --certificate and --key" in without.stderr
    half = await top("--address", net.address("sw"), "--ca", str(mine.ca))
    assert half.stderr == "paceline: TLS needs all of --ca, --certificate and --key\n"


@pytest.mark.parametrize(
    "wire",
    [
        pb.TableSnapshot(link=["a"], capacity_bps=[1.0], flows=[1], horizon=2, load_bps=[1.0]),
        pb.TableSnapshot(link=["a"], capacity_bps=[], flows=[1]),
        pb.TableSnapshot(link=["a"], capacity_bps=[1.0], flows=[]),
        pb.TableSnapshot(link=["a"], capacity_bps=[1.0], flows=[1], others_bps=[1.0, 2.0]),
    ],
)
def test_malformed_snapshots_are_refused(wire: pb.TableSnapshot) -> None:
    with pytest.raises(BadMessage):
        snapshot_of(wire.SerializeToString())
    with pytest.raises(BadMessage):
        snapshot_of(b"\xff")
