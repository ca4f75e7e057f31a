"""Real switches over real gRPC: daemons of one process on loopback, and hosts that say what a test wants."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import grpc

from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import Topology
from paceline.service.lifecycle import Requests, serve
from paceline.service.tls import TlsFiles, expecting
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, open_channel, path
from paceline.wire.codec import FEEDBACK, REPORT
from switchd.config import SwitchConfig
from switchd.daemon import SwitchDaemon
from switchd.switch import Switch

PATIENCE_S = 40.0  # on a busy machine; nothing here waits that long for its own sake


def flow(job: str, source: str, target: str) -> FlowId:
    return FlowId(job, source, target, Role.RING)


def claim(topology: Topology, which: FlowId, *plan_bps: float, urgency: float = 1.0) -> Claim:
    links = topology.path(which.source, which.target, str(which))
    return Claim(which, links, 25e6, Bid(urgency, 1e8, 1e8), 0.0, 0.0, (), (), plan_bps)


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Poll for something that is about to happen."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


class Host:
    """One end of a Negotiate stream."""

    def __init__(self, name: str, channel: grpc.aio.Channel, slot_of: Callable[[], int]) -> None:
        self.name = name
        self.clock = pb.ClockEcho()
        self.feedbacks: list[Feedback] = []
        self.ended: str | None = None  # how the stream ended, if it has: "STATUS reason"
        self._channel, self._slot_of = channel, slot_of
        self._numbers = count(1)
        self._arrived = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def hello(self, *, sent_ns: int = 0, **fields: Any) -> pb.Welcome:
        """Opens the stream. Raises the AioRpcError of a refusal."""
        self.call = self._channel.stream_stream(path("Negotiate"))(wait_for_ready=True)
        greeting = pb.Hello(**({"name": self.name, "protocol": PROTOCOL} | fields))
        await self.say(pb.HostMessage(sent_ns=sent_ns, hello=greeting))
        message = pb.SwitchMessage.FromString(await asyncio.wait_for(self.call.read(), PATIENCE_S))
        self.clock = message.clock
        self._reading = asyncio.create_task(self._read())
        return message.welcome

    async def say(self, message: pb.HostMessage | bytes) -> None:
        await self.call.write(message if isinstance(message, bytes) else message.SerializeToString())

    async def send(
        self, *claims: Claim, withdrawn: tuple[FlowId, ...] = (), sent_ns: int = 0, others_bps: float = 0.0
    ) -> int:
        number = next(self._numbers)
        gone = tuple(Withdrawal(which, 25e6) for which in withdrawn)
        report = REPORT.to_wire(Report(self.name, number, self._slot_of(), claims, gone, others_bps))
        await self.say(pb.HostMessage(sent_ns=sent_ns, report=report))
        return number

    async def ask(self, *claims: Claim, **options: Any) -> Feedback:
        """Sends a report and waits for its answer."""
        number = await self.send(*claims, **options)
        return await self.answer(number)

    async def answer(self, number: int) -> Feedback:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._arrived.clear()
                for feedback in self.feedbacks:
                    if feedback.answers == number:
                        return feedback
                assert self.ended is None, self.ended
                await self._arrived.wait()

    async def refusal(self) -> str:
        """How the switch ended the stream."""
        await until(lambda: self.ended is not None)
        assert self.ended is not None
        return self.ended

    async def _read(self) -> None:
        try:
            while (data := await self.call.read()) is not grpc.aio.EOF:
                message = pb.SwitchMessage.FromString(data)
                self.clock = message.clock
                self.feedbacks.append(FEEDBACK.from_wire(message.feedback))
                self._arrived.set()
            self.ended = "OK"
        except grpc.aio.AioRpcError as error:
            self.ended = f"{error.code().name} {error.details()}"
        self._arrived.set()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self.call.cancel()


class Fabric:
    """The switches of a topology, each a daemon; any of them may be stopped and started again."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.topology = topology
        self.daemons: dict[str, SwitchDaemon] = {}
        self.hosts: list[Host] = []
        self._options = {"slots": SlotsSpec(60.0, 10), "policy": "mlcc"} | options
        self._tls: Callable[[str], TlsFiles] | None = self._options.pop("certificates", None)
        self._running: dict[str, tuple[Requests, asyncio.Task[None]]] = {}
        self._ports: dict[str, int] = {}
        self._channels: dict[object, grpc.aio.Channel] = {}

    async def start(self, *switches: str) -> None:
        """All, or these again; the upper ones first, whose ports the lower ones must know."""
        for name in reversed(switches or self.topology.switches):
            daemon = self.daemons[name] = SwitchDaemon(
                SwitchConfig(
                    name=name,
                    listen=f"127.0.0.1:{self._ports.get(name, 0)}",
                    topology=self.topology,
                    parents={parent: self.address(parent) for parent in self.topology.parents.get(name, ())},
                    tls=self._tls(name) if self._tls else None,
                    **self._options,
                )
            )
            requests = Requests()
            task = asyncio.create_task(serve(daemon, requests))
            self._running[name] = requests, task
            await until(lambda daemon=daemon, task=task: daemon.port or task.done())
            if task.done():
                task.result()
            self._ports[name] = daemon.port
        await self.connected()

    async def connected(self) -> None:
        """Until every running switch has those of its parents that run."""
        for name in self._running:
            above = {parent for parent in self.topology.parents.get(name, ()) if parent in self._running}
            await until(lambda name=name, above=above: above <= self.switch(name).neighbours.keys())
            for parent in above:
                await until(lambda name=name, parent=parent: name in self.switch(parent).neighbours)

    async def stop(self, name: str) -> None:
        requests, task = self._running.pop(name)
        requests.stop.set()
        await asyncio.wait_for(task, PATIENCE_S)

    def requests(self, name: str) -> Requests:
        return self._running[name][0]

    def switch(self, name: str) -> Switch:
        switch = self.daemons[name].switch
        assert switch is not None
        return switch

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def slot(self, switch: str) -> int:
        of = self.switch(switch)
        return of.slots.index(of.clock.now_ns())

    def channel(self, switch: str, certificate: str | None = None, *, fresh: bool = False) -> grpc.aio.Channel:
        key = object() if fresh else (switch, certificate)
        if key not in self._channels:
            credentials = self._tls(certificate).channel_credentials() if self._tls and certificate else None
            options = expecting(switch) if credentials else None
            self._channels[key] = open_channel(self.address(switch), credentials, options)
        return self._channels[key]

    def host(self, name: str, *, certificate: str | None = None, fresh: bool = False) -> Host:
        """A host at its own ToR; its stream is not open yet."""
        tor = self.topology.switch_of.get(name, self.topology.switches[0])
        host = Host(name, self.channel(tor, certificate, fresh=fresh), lambda: self.slot(tor))
        self.hosts.append(host)
        return host

    async def joined(self, name: str, **options: Any) -> Host:
        host = self.host(name, **options)
        await host.hello()
        return host

    async def close(self) -> None:
        for host in self.hosts:
            if hasattr(host, "call"):
                await host.close()
        for channel in self._channels.values():
            await channel.close()
        await asyncio.gather(*map(self.stop, list(self._running)))
