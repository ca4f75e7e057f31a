"""The gRPC service: admits peers, turns bytes into calls of the Switch, and writes what its outboxes hold.

A peer that breaks a rule gets a status and a reason, and is counted; its stream ends, and with it only its own
leases. Between switches a stream carries many hosts' words, so there a bad letter is counted and left out.

    INVALID_ARGUMENT     no message of ours, or one that breaks a rule
    PERMISSION_DENIED    speaks for somebody else
    FAILED_PRECONDITION  another protocol, topology, horizon, slot length or policy
    RESOURCE_EXHAUSTED   too many streams, messages or flows, too large a message, too slow a reader
    DEADLINE_EXCEEDED    connected and said nothing
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NoReturn, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message

from service.repeats import RepeatLimit
from service.tls import peer_names
from switchd.flood import FloodLimit
from switchd.frames import Letter, frames
from switchd.outbox import FramePace, Outbox
from switchd.switch import HostStream, Switch
from wire import control_pb2 as pb
from wire.calls import MAX_MESSAGE_BYTES, PROTOCOL, SERVICE
from wire.duplex import both
from wire.translate import BadMessage

_log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 2.0

# Several hosts may come from one address (containers, tests), a thousand streams of one host may not.
SPARE_STREAMS = 16

# A dashboard needs one, and so does somebody with `paceline switch top`.
WATCHERS_PER_ADDRESS = 4

STATUS = {
    "identity": grpc.StatusCode.PERMISSION_DENIED,
    "protocol": grpc.StatusCode.FAILED_PRECONDITION,
    "topology": grpc.StatusCode.FAILED_PRECONDITION,
    "horizon": grpc.StatusCode.FAILED_PRECONDITION,
    "slot_length": grpc.StatusCode.FAILED_PRECONDITION,
    "policy": grpc.StatusCode.FAILED_PRECONDITION,
    "busy": grpc.StatusCode.FAILED_PRECONDITION,
    "streams": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "flood": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "size": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "slow": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "flows": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "silence": grpc.StatusCode.DEADLINE_EXCEEDED,
}

Context = grpc.aio.ServicerContext
M = TypeVar("M", bound=Message)


class Streams:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._repeats = RepeatLimit()
        self._open: Counter[tuple[str, str]] = Counter()  # what is open, by its kind and address
        self._flood = FloodLimit(switch.slots, switch.config.max_flows_per_host)
        self._shown: dict[tuple[str, ...], bytes] = {}  # by links, to everybody who watches them in this slot
        self._shown_slot = 0
        self._most_streams = SPARE_STREAMS + 2 * (len(switch.own_hosts) + len(switch.routes.others))
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
        async with self._turning_away(context):
            first = await self._first(context, pb.HostMessage)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            host = self._admit(first.hello, context, self._switch.own_hosts, "a host")
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
        message = _parse(data, pb.HostMessage)
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
        async with self._turning_away(context):
            message = _parse(request, pb.HostMessage)
            report, received_ns = message.report, self._switch.clock.now_ns()
            host = self._identify(report.sender, context, self._switch.own_hosts, "a host")
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
        async with self._turning_away(context):
            first = await self._first(context, pb.Frame)
            if not first.HasField("hello"):
                raise BadMessage("shape", "a stream begins with Hello")
            child = self._admit(first.hello, context, self._switch.routes.children, "a child")
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
            frame = _parse(data, pb.Frame)
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
                self.count(error, neighbour)

    # ---- People ----

    async def watch(self, request: bytes, context: Context) -> None:
        async with self._turning_away(context, "watchers", WATCHERS_PER_ADDRESS):
            wanted = _parse(request, pb.WatchRequest)
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

    # ---- Admission ----

    def _admit(self, hello: pb.Hello, context: Context, known: frozenset[str], what: str) -> str:
        name = self._identify(hello.name, context, known, what)
        topology, horizon, policy = self._switch.config.topology, self._switch.slots.horizon, self._switch.config.policy
        if hello.protocol != PROTOCOL:
            raise BadMessage("protocol", f"{name} speaks version {hello.protocol}, this switch {PROTOCOL}")
        if hello.topology and hello.topology != topology.fingerprint:
            raise BadMessage("topology", f"{name} was configured with another topology than {self._switch.name}")
        if hello.horizon not in (0, horizon):
            raise _other_terms("horizon", f"{name} plans {hello.horizon} slots ahead, this switch {horizon}")
        if hello.slot_length_ns not in (0, self._slot_length_ns):
            its_ms, own_ms = hello.slot_length_ns / 1e6, self._slot_length_ns / 1e6
            raise _other_terms("slot_length", f"{name} has slots of {its_ms:g} ms, this switch of {own_ms:g} ms")
        if hello.policy not in ("", policy):
            raise _other_terms("policy", f"{name} runs {hello.policy[:60]!r}, this switch {policy!r}")
        return name

    def _identify(self, name: str, context: Context, known: frozenset[str], what: str) -> str:
        if name not in known:
            raise BadMessage("identity", f"{name[:60]!r} is not {what} of {self._switch.name}")
        if self._switch.config.tls is not None and name not in peer_names(context.auth_context()):
            raise BadMessage("identity", f"the certificate is not for {name}")
        return name

    async def _first(self, context: Context, kind: type[M]) -> M:
        try:
            data = await asyncio.wait_for(context.read(), HELLO_TIMEOUT_S)
        except TimeoutError:
            raise BadMessage("silence", "no Hello") from None
        if data is grpc.aio.EOF:
            raise BadMessage("silence", "no Hello")
        return _parse(data, kind)

    async def _write(self, context: Context, message: Message) -> None:
        await context.write(message.SerializeToString())

    @asynccontextmanager
    async def _turning_away(
        self, context: Context, what: str = "streams", most: int | None = None
    ) -> AsyncIterator[None]:
        """A peer that breaks a rule is answered with a status, counted and logged now and then.

        Its stream counts until it has taken the answer: one that does not read keeps us waiting with it.
        """
        most = self._most_streams if most is None else most
        address = _address(context)
        kind = what, address
        self._open[kind] += 1
        try:
            if self._open[kind] > most:
                raise BadMessage("streams", f"more than {most} {what} from one address")
            yield
        except BadMessage as error:
            self.count(error, address)
            await _abort(context, STATUS.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT), str(error))
        finally:
            self._open[kind] -= 1
            if not self._open[kind]:
                del self._open[kind]

    def count(self, error: BadMessage, peer: str) -> None:
        self._switch.count_bad(error.reason)
        self._repeats.log(_log, logging.WARNING, (peer, error.reason), "refused: %s", error, extra={"peer": peer})


def _other_terms(reason: str, found: str) -> BadMessage:
    return BadMessage(reason, f"{found}; configure the same in both")


async def _abort(context: Context, status: grpc.StatusCode, reason: str) -> NoReturn:
    await context.abort(status, reason)
    raise AssertionError("abort does not return")


def _parse(data: bytes, kind: type[M]) -> M:
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadMessage("size", f"a message of {len(data)} bytes, expected at most {MAX_MESSAGE_BYTES}")
    try:
        return kind.FromString(data)
    except DecodeError:
        raise BadMessage("shape", f"no {kind.__name__} in {len(data)} bytes") from None


def _flows_in(report: pb.Report) -> int:
    return len(report.claims.flow) + len(report.withdrawn)


def _address(context: Context) -> str:
    """Who is at the other end, without the port: ipv4:10.0.0.1, ipv6:[::1], unix:."""
    peer = unquote(context.peer())
    return peer if peer.startswith("unix") else peer.rpartition(":")[0]
