"""Another topology while a switch runs: streams stay open, what was promised stays promised, and hosts and racks come
and go. Peers with another version of the topology are taken in, unless they contradict this one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bench.micro.switch_processes import free_ports
from paceline.flowcore.model.topology import Topology, star
from paceline.flowcore.model.topology_file import parse_topology_file
from paceline.service.lifecycle import Requests, serve
from paceline.wire import control_pb2 as pb
from paceline.wire.hello import tell_topology
from switchd.config import read_config
from switchd.daemon import SwitchDaemon
from tests.switchd.fabric import Fabric, Host, claim, flow, until

SLOT_MS = 30.0
SWITCHES = {"core": '{{listen = "{listen}"}}', "rack1": '{{parents = ["core"], gbps = 2, listen = "{listen}"}}'}
RACK2 = {"rack2": '{{parents = ["core"], gbps = 2, listen = "{listen}"}}'}
HOSTS = {"a": "rack1", "b": "rack1"}
A, B = flow("a", "a", "b"), flow("b", "b", "a")


class FileFabric(Fabric):
    """Switches that read one topology file."""

    def __init__(self, place: Path) -> None:
        super().__init__(star(2, 1.0))
        self.place = place
        self._ports = dict(zip(("core", "rack1", "rack2"), free_ports(3), strict=True))
        self.write(SWITCHES, HOSTS)

    def write(self, switches: dict[str, str], hosts: dict[str, str], gbps: float = 1.0) -> Topology:
        lines = ["version = 1", "[switches]"]
        lines += [f"{name} = {text.format(listen=self.address(name))}" for name, text in switches.items()]
        lines += ["[hosts]", *(f'{host} = {{switch = "{rack}", gbps = {gbps}}}' for host, rack in hosts.items())]
        text = "\n".join(lines)
        (self.place / "topology.toml").write_text(text)
        self.topology = parse_topology_file(text, "topology.toml").topology
        return self.topology

    async def run(self, name: str, more: str = "") -> None:
        path = self.place / f"{name}.toml"
        text = f'name = "{name}"\ntopology_file = "topology.toml"\npolicy = "paceline"\n{more}\n'
        path.write_text(f"{text}[slots]\nlength_ms = {SLOT_MS}\n")
        daemon, requests = SwitchDaemon(read_config(path), path), Requests()
        self.daemons[name] = daemon
        self._running[name] = requests, asyncio.create_task(serve(daemon, requests))
        await until(lambda: daemon.port)

    async def reload(self, *names: str) -> None:
        for name in names:
            self.requests(name).reload.set()
        hosts = self.topology.hosts
        await until(lambda: all(self.switch(name).config.topology.hosts == hosts for name in names))


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[FileFabric]:
    made = FileFabric(tmp_path)
    for name in SWITCHES:
        await made.run(name)
    await made.connected()
    yield made
    await made.close()


def hello(topology: Topology, name: str) -> dict[str, Any]:
    message = pb.Hello(name=name)
    tell_topology(message, topology)
    return {"topology": message.topology, "uplink": message.uplink}


async def reporting(host: Host, *claims: Any) -> None:
    while True:
        await host.send(*claims)
        await asyncio.sleep(SLOT_MS / 1e3)


async def test_a_host_and_a_rack_are_added_and_what_was_promised_stays(net: FileFabric) -> None:
    old, switch = net.topology, net.switch("rack1")
    a, b = await net.joined("a"), await net.joined("b")
    goes_on = [asyncio.create_task(reporting(one, claim(old, which, 3e8))) for one, which in ((a, A), (b, B))]
    await until(lambda: {A, B} <= switch.agent.table._heard.keys())
    before = switch.agent
    net.write(SWITCHES | RACK2, HOSTS | {"c": "rack1", "d": "rack2"})
    await net.reload("core", "rack1")
    assert switch.agent is not before and {A, B} <= switch.agent.table._heard.keys(), (
        "it knows them from the first moment"
    )
    assert "c->rack1" in switch.agent.table.capacity_bps
    assert a.ended is None and b.ended is None and sorted(switch.hosts) == ["a", "b"]
    await net.run("rack2")
    await net.connected()
    c, d = await net.joined("c"), await net.joined("d")
    away = flow("c", "c", "d")
    answer = await c.ask(claim(net.topology, away, 1e8))
    assert answer.grants[0].accepted and not answer.silent
    assert away in net.switch("core").agent.table and d.ended is None
    for task in goes_on:
        task.cancel()


async def test_a_host_that_is_gone_loses_its_stream_and_the_others_do_not(net: FileFabric) -> None:
    a, b = await net.joined("a"), await net.joined("b")
    net.write(SWITCHES, {"a": "rack1"})
    await net.reload("core", "rack1")
    assert await b.refusal() == "PERMISSION_DENIED identity: b is no longer a host of rack1"
    assert a.ended is None and "b->rack1" not in net.switch("rack1").agent.table.capacity_bps


async def test_versions_of_a_topology_live_together_and_contradictions_do_not(net: FileFabric) -> None:
    newer = net.write(SWITCHES | RACK2, HOSTS | {"d": "rack2"})
    a = net.host("a")
    await a.hello(**hello(newer, "a"))
    answer = await a.ask(claim(newer, A, 1e8), claim(newer, flow("x", "a", "d"), 1e8))
    assert [grant.flow for grant in answer.grants] == [A], "what goes to an unknown host is left out"
    assert net.switch("rack1").refused == {"flow": 1}
    faster = net.write(SWITCHES, HOSTS, gbps=2.0)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await net.host("b").hello(**hello(faster, "b"))
    cable = "the cable from b to rack1 has 2 Gbit/s there, and 1 Gbit/s here"
    assert refused.value.details() == f"topology: b was configured with another topology than rack1: {cable}"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("policy", "policy cannot change while switchd runs; restart it"),
        ("parents", "parents cannot change while switchd runs; restart it"),
        ("broken", "no TOML"),
        ("nothing", "a switch reads its configuration at its start"),
    ],
)
async def test_what_is_fixed_or_wrong_changes_nothing(
    net: FileFabric, caplog: pytest.LogCaptureFixture, edit: str, said: str
) -> None:
    before = net.switch("rack1").config
    path = net.place / "rack1.toml"
    if edit == "policy":
        path.write_text(path.read_text().replace('"paceline"', '"mlcc"'))
    elif edit == "parents":
        net.write(SWITCHES | {"rack1": '{{listen = "{listen}"}}'}, HOSTS)
    elif edit == "broken":
        (net.place / "topology.toml").write_text("version = ")
    with caplog.at_level(logging.INFO):
        net.requests("rack1").reload.set()
        await until(lambda: any(said in record.getMessage() for record in caplog.records))
    assert net.switch("rack1").config is before
