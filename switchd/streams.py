"""The gRPC service: turns the bytes of a peer into calls of the Switch, and writes what the Switch's outboxes hold.

A peer that breaks a rule is refused (handshake.py). A stream between switches carries messages of many hosts, so there
a bad message is counted and dropped, and the stream goes on.
"""

import asyncio
from collections.abc import Iterable

import grpc

from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, SERVICE, serialized
from paceline.wire.codec import BadMessage
from paceline.wire.duplex import both
from paceline.wire.host_state import require_small
from switchd.frames import Outgoing, frames
from switchd.handshake import Context, Handshake, first_message, parse
from switchd.outbox import FramePace, Outbox
from switchd.rate_limit import PeerRateLimit
from switchd.switch import HostSession, Switch

# A dashboard needs one, and so does an operator with `paceline switch top`.
WATCHERS_PER_ADDRESS = 4


class Streams:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self.handshake = Handshake(switch)
        self._rate_limit = PeerRateLimit(switch.slots, switch.config.max_flows_per_host)
        self._snapshots: dict[tuple[tuple[str, ...], bool], bytes] = {}  # for all who watch the same in this slot
        self._snapshots_slot = 0
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
        async with self.handshake.refusals_as_status(context):
            first = await first_message(context, pb.HostMessage)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            host = self.handshake.check_hello(first.hello, context, self._switch.own_hosts, "a host")
            session = self._switch.host_connected(host)
            try:
                self._note_time(session, first.sent_ns)
                session.clock_echo.sent_ns = self._switch.clock.now_ns()
                welcome = pb.SwitchMessage(clock=session.clock_echo, welcome=self._welcome(host))
                await context.write(serialized(welcome))
                await both(self._host_reads(host, session, context), self._host_writes(host, session, context))
            finally:
                self._switch.host_disconnected(host, session)

    async def _host_reads(self, host: str, session: HostSession, context: Context) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            message = parse(data, pb.HostMessage)
            self._note_time(session, message.sent_ns)
            self._rate_limit.count(host, session.clock_echo.received_ns, _flows_in(message.report), len(data))
            if session.outbox.closed:  # the writer may still wait for a peer that does not read
                raise self._closed(host, session)
            if message.HasField("state"):
                require_small(message.state)
                message.state.host = host
                session.state = message.state
                continue
            if not message.HasField("report"):
                raise BadMessage("shape", "found no report in a message after Hello")
            self._switch.take_report(host, message.report)
            await asyncio.sleep(0)  # what the message led to is written before the next one is read

    async def _host_writes(self, host: str, session: HostSession, context: Context) -> None:
        while True:
            waiting = await session.outbox.take()
            if not waiting:
                raise self._closed(host, session)
            for feedback in waiting:
                session.clock_echo.sent_ns = self._switch.clock.now_ns()
                await context.write(serialized(pb.SwitchMessage(clock=session.clock_echo, feedback=feedback)))

    def _closed(self, host: str, session: HostSession) -> BadMessage:
        if host not in self._switch.own_hosts:
            return BadMessage("identity", f"{host} is no longer a host of {self._switch.name}")
        if self._switch.hosts.get(host) is not session:
            return BadMessage("busy", "another stream of this host has taken over")
        return BadMessage("slow", "the host does not read its answers")

    def _note_time(self, session: HostSession, sent_ns: int) -> None:
        echo = session.clock_echo
        echo.echo_ns, echo.received_ns = sent_ns, self._switch.clock.now_ns()
        session.clock_watch.observe(sent_ns, echo.received_ns)
        off_by_ns = session.clock_watch.off_by_ns
        if off_by_ns and not echo.off_by_ns:
            self._switch.count_refusal("clock")
        echo.off_by_ns = off_by_ns

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
            takes_state=True,
        )

    # ---- Tools and simple clients ----

    async def fetch_feedback(self, request: bytes, context: Context) -> bytes:
        return await self._call(request, context, plans=False)

    async def update_schedule(self, request: bytes, context: Context) -> bytes:
        return await self._call(request, context, plans=True)

    async def _call(self, request: bytes, context: Context, plans: bool) -> bytes:
        async with self.handshake.refusals_as_status(context):
            message = parse(request, pb.HostMessage)
            report, received_ns = message.report, self._switch.clock.now_ns()
            host = self.handshake.check_identity(report.sender, context, self._switch.own_hosts, "a host")
            if host in self._switch.hosts:
                raise BadMessage("busy", f"{host} negotiates on a stream; Watch shows the table")
            self._rate_limit.count(host, received_ns, _flows_in(report), len(request))
            if bool(len(report.claims.plan_bps)) != plans:
                raise BadMessage("shape", "UpdateSchedule needs plans" if plans else "FetchFeedback takes no plans")
            if not report.claims.flow:
                raise BadMessage("shape", "a call without claims has no answer")
            if (host, report.number) in self._switch.calls:
                raise BadMessage("busy", f"a call of {host} with number {report.number} waits for its answer")
            answer = self._switch.calls[host, report.number] = asyncio.get_running_loop().create_future()
            try:
                self._switch.take_report(host, report)
                feedback = await asyncio.wait_for(answer, 3 * self._slot_length_ns / 1e9)
            except TimeoutError:
                raise BadMessage("silence", "another switch on the path did not answer in time") from None
            finally:
                self._switch.calls.pop((host, report.number), None)
            clock = pb.ClockEcho(echo_ns=message.sent_ns, received_ns=received_ns, sent_ns=self._switch.clock.now_ns())
            return serialized(pb.SwitchMessage(clock=clock, feedback=feedback))
        raise AssertionError("a refusal does not return")

    # ---- A child switch ----

    async def federate(self, _requests: object, context: Context) -> None:
        async with self.handshake.refusals_as_status(context):
            first = await first_message(context, pb.Frame)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            child = self.handshake.check_hello(first.hello, context, self._switch.routes.children, "a child")
            outbox = self._switch.neighbour_connected(child)
            echo = pb.ClockEcho()
            try:
                self._note_frame(echo, first)
                echo.sent_ns = self._switch.clock.now_ns()
                await context.write(serialized(pb.Frame(welcome=self._welcome(child), clock=echo)))
                await both(self._child_reads(child, echo, context), self._child_writes(child, outbox, echo, context))
            finally:
                self._switch.neighbour_disconnected(child, outbox)

    async def _child_reads(self, child: str, echo: pb.ClockEcho, context: Context) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            frame = parse(data, pb.Frame)
            self._note_frame(echo, frame)
            flows = sum(_flows_in(one.report) for one in frame.envelope if one.to == self._switch.name)
            hosts = self._switch.routes.hosts_below[child]
            self._rate_limit.count(child, echo.received_ns, flows, len(data), hosts)
            await self.take_frame(child, frame)

    async def _child_writes(self, child: str, outbox: Outbox[Outgoing], echo: pb.ClockEcho, context: Context) -> None:
        pace = FramePace(self._slot_length_ns / 1e9)

        def frame_of(envelopes: list[pb.Envelope]) -> bytes:
            echo.sent_ns = self._switch.clock.now_ns()
            return serialized(pb.Frame(envelope=envelopes, clock=echo))

        while outgoing := await outbox.take(pace):
            for frame in frames(self._switch.name, outgoing, frame_of):
                await context.write(frame)
        if self._switch.neighbours.get(child) is not outbox:
            raise BadMessage("busy", "another stream of this switch has taken over")
        if child not in self._switch.routes.children:
            raise BadMessage("identity", f"{child} is no longer a child of {self._switch.name}")
        raise BadMessage("slow", "the child does not read its messages")

    def _note_frame(self, echo: pb.ClockEcho, frame: pb.Frame) -> None:
        echo.echo_ns, echo.received_ns = frame.sent_ns, self._switch.clock.now_ns()

    async def take_frame(self, neighbour: str, frame: pb.Frame) -> None:
        """Messages for other switches leave before this switch handles its own."""
        relayed = [envelope for envelope in frame.envelope if envelope.to != self._switch.name]
        if relayed:
            self.take_envelopes(neighbour, relayed)
            await asyncio.sleep(0)
        self.take_envelopes(neighbour, [envelope for envelope in frame.envelope if envelope.to == self._switch.name])
        await asyncio.sleep(0)  # what the messages led to is written before the next frame is read

    def take_envelopes(self, neighbour: str, envelopes: Iterable[pb.Envelope]) -> None:
        for envelope in envelopes:
            try:
                self._switch.take_envelope(neighbour, envelope)
            except BadMessage as error:
                self.handshake.count_refusal(error, neighbour)

    # ---- Watching ----

    async def watch(self, request: bytes, context: Context) -> None:
        async with self.handshake.refusals_as_status(context, "watchers", WATCHERS_PER_ADDRESS):
            wanted = parse(request, pb.WatchRequest)
            known = self._switch.agent.table.capacity_bps
            for link in wanted.link:
                if link not in known:
                    raise BadMessage("link", f"no link {link[:60]!r} in the table of {self._switch.name}")
            states = wanted.host_states
            every_s = max(1, min(wanted.every_slots, 10_000)) * self._slot_length_ns / 1e9
            while True:
                known = self._switch.agent.table.capacity_bps  # a reload may bring links, and take some
                links = tuple(link for link in dict.fromkeys(wanted.link or known) if link in known)
                await context.write(self._snapshot(links, states))
                await asyncio.sleep(every_s)

    def _snapshot(self, links: tuple[str, ...], states: bool) -> bytes:
        """Made once a slot, however many watchers there are."""
        slot = self._switch.slots.index(self._switch.clock.now_ns())
        if slot != self._snapshots_slot:
            self._snapshots_slot, self._snapshots = slot, {}
        if (links, states) not in self._snapshots:
            self._snapshots[links, states] = serialized(self._switch.snapshot(links, states))
        return self._snapshots[links, states]


def _flows_in(report: pb.Report) -> int:
    return len(report.claims.flow) + len(report.withdrawn)
