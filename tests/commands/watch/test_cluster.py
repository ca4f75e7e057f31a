"""`paceline status --cluster`: hosts that told of themselves, hosts that are away, and switches that are."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from paceline.cli import build_parser, main
from paceline.flowcore.model.topology import star
from paceline.wire import control_pb2 as pb
from paceline.wire.host_state import MAX_BYTES, MOST_CHARS, HostState, JobState, from_wire, to_wire
from tests.switchd.conftest import fabric
from tests.switchd.fabric import Fabric, until

__all__ = ["fabric"]  # a fixture

Make = Callable[..., Awaitable[Fabric]]
JOB = JobState("1000/bert", "sending", False, 7, 120.0, 1.25, ("nothing is decided in mode observe",))
STATE = HostState("observe", "htb", "0.1.0", False, 3, (JOB,), 1, {"no such device": 2})


def run(*words: str) -> int:
    """As `main` does, which a thread cannot call: it sets a signal handler."""
    args = build_parser().parse_args(words)
    return int(args.run(args))


async def with_a_host_that_told(fabric: Make) -> tuple[Fabric, str]:
    topology = star(11, 1.0)
    cluster = await fabric(topology)
    [switch] = topology.switches
    host = cluster.host("h10")
    assert (await host.hello()).takes_state
    await host.say(pb.HostMessage(state=to_wire(STATE)))
    await until(lambda: cluster.switch(switch).hosts["h10"].state is not None)
    return cluster, switch


async def test_what_hosts_told_is_shown(fabric: Make, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, switch = await with_a_host_that_told(fabric)
    where = ("--cluster", "--switch", cluster.address(switch), "--switch", "127.0.0.1:1")
    assert await asyncio.to_thread(run, "status", *where, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    hosts = {host["name"]: host for host in found["hosts"]}
    assert list(hosts) == [f"h{number}" for number in range(11)]
    assert not hosts["h0"]["connected"] and hosts["h0"]["mode"] is None
    assert hosts["h10"]["connected"] and hosts["h10"]["mode"] == "observe" and hosts["h10"]["backend"] == "htb"
    assert hosts["h10"]["jobs"][0]["name"] == "bert" and hosts["h10"]["jobs"][0]["not_paced"] == list(JOB.why)
    assert hosts["h10"]["troubles"] == {"no such device": 2}
    assert [(one["name"], one["answers"]) for one in found["switches"]] == [(switch, True), (None, False)]
    assert await asyncio.to_thread(run, "status", *where) == 0
    said = capsys.readouterr().out
    assert "1 of 11 hosts are connected" in said and "nothing is decided in mode observe" in said
    assert "127.0.0.1:1 is away: no switch listens there" in said


async def test_a_state_that_is_too_large_ends_the_stream(fabric: Make) -> None:
    topology = star(2, 1.0)
    cluster = await fabric(topology)
    host = await cluster.joined("h0")
    await host.say(pb.HostMessage(state=pb.HostState(mode="x" * MAX_BYTES)))
    assert "RESOURCE_EXHAUSTED" in await host.refusal()


def test_a_state_survives_the_wire_and_long_texts_are_cut() -> None:
    assert from_wire(to_wire(STATE)) == STATE
    long = replace(
        STATE, jobs=(replace(JOB, why=("x" * 999,)),) * 99, troubles={f"{n} {'y' * 999}": 1 for n in range(99)}
    )
    wire = to_wire(long)
    assert wire.ByteSize() < MAX_BYTES and len(wire.job[0].why[0]) == MOST_CHARS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status --cluster --switch 127.0.0.1:1", "127.0.0.1:1: no switch listens there"),
        ("status --switch 127.0.0.1:1", "belong to --cluster"),
        ("status --cluster --switch x", "expected HOST:PORT"),
        ("status --cluster --ca x --switch 127.0.0.1:1", "all of --ca"),
    ],
)
def test_wrong_inputs_are_one_line(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and printed.err.count("\n") == 1
