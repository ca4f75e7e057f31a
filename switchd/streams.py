"""The gRPC service: turns the bytes of whoever got in into calls of the Switch, and writes what its outboxes hold.

A peer that breaks a rule is turned away (entrance.py). Between switches a stream carries many hosts' words, so there a
bad letter is counted and left out.
"""

import asyncio
from collections.abc import Iterable

import grpc
from google.protobuf.message import Message

from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, SERVICE
from paceline.wire.codec import BadMessage
from paceline.wire.duplex import both
from switchd.frames import Letter, frames
from switchd.handshake import Context, Entrance, first_word, parse
from switchd.outbox import FramePace, Outbox
from switchd.rate_limit import FloodLimit
from switchd.switch import HostStream, Switch

# A dashboard needs one, and so does somebody with `paceline switch top`.
WATCHERS_PER_ADDRESS = 4


class Streams:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self.entrance = Entrance(switch)
        self._flood = FloodLimit(switch.slots, switch.config.max_flows_per_host)
        self._shown: dict[tuple[str, ...], bytes] = {}  # by links, to everybody who watches them in this slot
        self._shown_slot = 0
        self._slot_length_ns = switch.slots.length_ns

    def handler(self) -> grpc.GenericRpcHandler:
        # No (de)serializers: bytes in, bytes out.
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Negotiate": grpc.stream_stream_rpc_method_handler(self.negotiate),
                "Federate": grpc.stream_stream_rpc_method_handler(self.federate),
                "FetchFeedback": grpc.unary_unary_rpc_method_handler(self.fetch_feedback),
                "UpdateSchedule": grpc.unary_unary_rpc_method_handler(self.update_schedule),
                "Watch": grpc.unary_stream_rpc_method_handler(self.watch),
            },
        )

    # ---- A host ----

    async def negotiate(self, _requests: object, context: Context) -> None:
        async with self.entrance.turning_away(context):
            first = await first_word(context, pb.HostMessage)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            host = self.entrance.admit(first.hello, context, self._switch.own_hosts, "a host")
            stream = self._switch.host_joins(host)
            try:
                self._note_time(stream, first.sent_ns)
                stream.heard.sent_ns = self._switch.clock.now_ns()
                welcome = pb.SwitchMessage(clock=stream.heard, welcome=self._welcome(host))
                await self._write(context, welcome)
                await both(self._host_reads(host, stream, context), self._host_writes(host, stream, context))
            finally:
                self._switch.host_leaves(host, stream)

    async def _host_reads(self, host: str, stream: HostStream, context: Context) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            self.take_message(host, stream, data)
            await asyncio.sleep(0)  # what it led to is written before we ask for more

    def take_message(self, host: str, stream: HostStream, data: bytes) -> None:
        """What a host said on its stream after Hello."""
        message = parse(data, pb.HostMessage)
        self._note_time(stream, message.sent_ns)
        self._flood.take(host, stream.heard.received_ns, _flows_in(message.report), len(data))
        if stream.outbox.closed:  # the writer may be unable to say so, waiting for a peer that does not read
            raise self._closed(host, stream)
        if not message.HasField("report"):
            raise BadMessage("shape", "expected a report")
        self._switch.report(host, message.report)

    async def _host_writes(self, host: str, stream: HostStream, context: Context) -> None:
        while True:
            waiting = await stream.outbox.take()
            if not waiting:
                raise self._closed(host, stream)
            for feedback in waiting:
                stream.heard.sent_ns = self._switch.clock.now_ns()
                await self._write(context, pb.SwitchMessage(clock=stream.heard, feedback=feedback))

    def _closed(self, host: str, stream: HostStream) -> BadMessage:
        if self._switch.hosts.get(host) is not stream:
            return BadMessage("busy", "another stream of this host has taken over")
        return BadMessage("slow", "the answers are not being read")

    def _note_time(self, stream: HostStream, sent_ns: int) -> None:
        heard = stream.heard
        heard.echo_ns, heard.received_ns = sent_ns, self._switch.clock.now_ns()
        stream.watch.observe(sent_ns, heard.received_ns)
        off_by_ns = stream.watch.off_by_ns
        if off_by_ns and not heard.off_by_ns:
            self._switch.count_bad("clock")
        heard.off_by_ns = off_by_ns

    def _welcome(self, name: str) -> pb.Welcome:
        switch = self._switch
        return pb.Welcome(
            name=switch.name,
            protocol=PROTOCOL,
            epoch_ns=switch.slots.epoch_ns,
            slot_length_ns=switch.slots.length_ns,
            horizon=switch.slots.horizon,
            phase_ns=switch.phases_ns.get(name, 0),
            policy=switch.config.policy,
        )

    # ---- Tools and simple clients ----

    async def fetch_feedback(self, request: bytes, context: Context) -> bytes:
        return await self._call(request, context, plans=False)

    async def update_schedule(self, request: bytes, context: Context) -> bytes:
        return await self._call(request, context, plans=True)

    async def _call(self, request: bytes, context: Context, plans: bool) -> bytes:
        async with self.entrance.turning_away(context):
            message = parse(request, pb.HostMessage)
            report, received_ns = message.report, self._switch.clock.now_ns()
            host = self.entrance.identify(report.sender, context, self._switch.own_hosts, "a host")
            if host in self._switch.hosts:
                raise BadMessage("busy", f"{host} negotiates on a stream; Watch shows the table")
            self._flood.take(host, received_ns, _flows_in(report), len(request))
            if bool(len(report.claims.plan_bps)) != plans:
                raise BadMessage("shape", "UpdateSchedule needs plans" if plans else "FetchFeedback takes no plans")
            if not report.claims.flow:
                raise BadMessage("shape", "a call without claims has no answer")
            if (host, report.number) in self._switch.calls:
                raise BadMessage("busy", f"a call of {host} with number {report.number} waits for its answer")
            answer = self._switch.calls[host, report.number] = asyncio.get_running_loop().create_future()
            try:
                self._switch.report(host, report)
                feedback = await asyncio.wait_for(answer, 3 * self._slot_length_ns / 1e9)
            except TimeoutError:
                raise BadMessage("silence", "another switch on the path did not answer in time") from None
            finally:
                self._switch.calls.pop((host, report.number), None)
            clock = pb.ClockEcho(echo_ns=message.sent_ns, received_ns=received_ns, sent_ns=self._switch.clock.now_ns())
            return pb.SwitchMessage(clock=clock, feedback=feedback).SerializeToString()
        raise AssertionError("turning away does not return")

    # ---- A child switch ----

    async def federate(self, _requests: object, context: Context) -> None:
        async with self.entrance.turning_away(context):
            first = await first_word(context, pb.Frame)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            child = self.entrance.admit(first.hello, context, self._switch.routes.children, "a child")
            outbox = self._switch.neighbour_joins(child)
            heard = pb.ClockEcho()
            try:
                self._note_frame(heard, first)
                heard.sent_ns = self._switch.clock.now_ns()
                await self._write(context, pb.Frame(welcome=self._welcome(child), clock=heard))
                await both(self._child_reads(child, heard, context), self._child_writes(child, outbox, heard, context))
            finally:
                self._switch.neighbour_leaves(child, outbox)

    async def _child_reads(self, child: str, heard: pb.ClockEcho, context: Context) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            frame = parse(data, pb.Frame)
            self._note_frame(heard, frame)
            flows = sum(_flows_in(letter.report) for letter in frame.envelope if letter.to == self._switch.name)
            hosts = self._switch.routes.hosts_below[child]
            self._flood.take(child, heard.received_ns, flows, len(data), hosts)
            await self.take_frame(child, frame)

    async def _child_writes(self, child: str, outbox: Outbox[Letter], heard: pb.ClockEcho, context: Context) -> None:
        pace = FramePace(self._slot_length_ns / 1e9)

        def serialized(envelopes: list[pb.Envelope]) -> bytes:
            heard.sent_ns = self._switch.clock.now_ns()
            return pb.Frame(envelope=envelopes, clock=heard).SerializeToString()

        while letters := await outbox.take(pace):
            for frame in frames(self._switch.name, letters, serialized):
                await context.write(frame)
        if self._switch.neighbours.get(child) is not outbox:
            raise BadMessage("busy", "another stream of this switch has taken over")
        raise BadMessage("slow", "the letters are not being read")

    def _note_frame(self, heard: pb.ClockEcho, frame: pb.Frame) -> None:
        heard.echo_ns, heard.received_ns = frame.sent_ns, self._switch.clock.now_ns()

    async def take_frame(self, neighbour: str, frame: pb.Frame) -> None:
        """Letters for others leave before we think about our own."""
        passing = [letter for letter in frame.envelope if letter.to != self._switch.name]
        if passing:
            self.take_letters(neighbour, passing)
            await asyncio.sleep(0)
        self.take_letters(neighbour, [letter for letter in frame.envelope if letter.to == self._switch.name])
        await asyncio.sleep(0)  # what they led to is written before we ask for more

    def take_letters(self, neighbour: str, letters: Iterable[pb.Envelope]) -> None:
        for letter in letters:
            try:
                self._switch.letter(neighbour, letter)
            except BadMessage as error:
                self.entrance.count(error, neighbour)

    # ---- People ----

    async def watch(self, request: bytes, context: Context) -> None:
        async with self.entrance.turning_away(context, "watchers", WATCHERS_PER_ADDRESS):
            wanted = parse(request, pb.WatchRequest)
            known = self._switch.agent.table.capacity_bps
            for link in wanted.link:
                if link not in known:
                    raise BadMessage("link", f"no link {link[:60]!r} in the table of {self._switch.name}")
            links = tuple(dict.fromkeys(wanted.link)) or tuple(known)
            every_s = max(1, min(wanted.every_slots, 10_000)) * self._slot_length_ns / 1e9
            while True:
                await context.write(self._snapshot(links))
                await asyncio.sleep(every_s)

    def _snapshot(self, links: tuple[str, ...]) -> bytes:
        """Made once a slot, however many watch."""
        slot = self._switch.slots.index(self._switch.clock.now_ns())
        if slot != self._shown_slot:
            self._shown_slot, self._shown = slot, {}
        if links not in self._shown:
            self._shown[links] = self._switch.snapshot(links).SerializeToString()
        return self._shown[links]

    async def _write(self, context: Context, message: Message) -> None:
        await context.write(message.SerializeToString())


def _flows_in(report: pb.Report) -> int:
    return len(report.claims.flow) + len(report.withdrawn)
