"""A switch's stream to one parent: kept open for as long as the switch runs, and opened again when it breaks."""

import asyncio
import logging

import grpc
from google.protobuf.message import DecodeError

from paceline.service.handshakes.tls_failure import why_handshake_fails
from paceline.service.log_rate_limit import LogRateLimit
from paceline.service.tls import TlsFiles, expecting
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, open_channel, path, serialized
from paceline.wire.codec import BadMessage
from paceline.wire.duplex import both
from paceline.wire.hello import tell_topology
from paceline.wire.retry import RETRY_S, Retry, may_be_a_certificate
from switchd.frames import Outgoing, frames
from switchd.outbox import FramePace, Outbox
from switchd.streams import Streams
from switchd.switch import Switch

_log = logging.getLogger(__name__)


class Uplink:
    def __init__(self, switch: Switch, streams: Streams, parent: str, address: str) -> None:
        self._switch, self._streams, self._parent, self._address = switch, streams, parent, address
        # The clocks of a tree follow its top, each switch by way of its first parent.
        self._follows_clock = parent == switch.routes.parents[0]
        self._sampled_ns = 0
        self._log_limit = LogRateLimit()
        self._said = ""  # why there is no stream
        self._tls = switch.config.tls
        self._credentials = self._tls.channel_credentials() if self._tls else None
        self._renewed = asyncio.Event()
        self._retry = Retry()

    async def run(self) -> None:
        """Until cancelled."""
        channel = self._open_channel()
        try:
            while True:
                failure = await self._try(channel)
                delay_s = self._retry.delay_s(failure)
                if delay_s <= RETRY_S and not self._renewed.is_set():
                    await asyncio.sleep(delay_s)
                    continue
                await channel.close()  # or gRPC itself would go on with handshakes
                try:
                    await asyncio.wait_for(self._renewed.wait(), delay_s)
                    self._renewed.clear()
                except TimeoutError:
                    pass
                channel = self._open_channel()
        finally:
            await channel.close()

    def renew(self, tls: TlsFiles) -> None:
        """Shows these files' certificate from the next stream on, which is tried at once if none is open."""
        self._tls, self._credentials = tls, tls.channel_credentials()
        self._renewed.set()

    def _open_channel(self) -> grpc.aio.Channel:
        options = expecting(self._parent) if self._credentials is not None else None
        return open_channel(self._address, self._credentials, options)

    async def _try(self, channel: grpc.aio.Channel) -> Exception | None:
        """One stream, to its end; returns what ended it."""
        try:
            await self._federate(channel)
        except BadMessage as error:
            self._streams.handshake.count_refusal(error, self._parent)
            return error
        except (grpc.aio.AioRpcError, DecodeError) as error:
            failure: Exception = error
            if not self._retry.refusals:
                await self._warn(failure)
            return failure
        except Exception:  # a fault in handling a message ends the stream, not the switch
            self._switch.count_refusal("error")
            if self._log_limit.passes("error") is not None:
                _log.exception("the stream to the parent failed", extra={"switch": self._parent})
            return None
        self._said = ""
        return None

    async def _warn(self, error: Exception) -> None:
        """Once for each reason in a row."""
        reason = "the parent's message is no valid frame"
        if isinstance(error, grpc.aio.AioRpcError):
            reason = error.details() or str(error.code())
        if may_be_a_certificate(error):
            own, parent, address = self._switch.name, self._parent, self._address
            why = await asyncio.to_thread(why_handshake_fails, self._tls, own, parent, address)
            reason = why or reason
        if reason != self._said:
            _log.warning("no stream to the parent: %s", reason, extra={"switch": self._parent})
        self._said = reason

    async def _federate(self, channel: grpc.aio.Channel) -> None:
        switch = self._switch
        call = channel.stream_stream(path("Federate"))(wait_for_ready=False)
        hello = pb.Hello(
            name=switch.name,
            protocol=PROTOCOL,
            horizon=switch.slots.horizon,
            slot_length_ns=switch.slots.length_ns,
            policy=switch.config.policy,
        )
        tell_topology(hello, switch.config.topology)
        try:
            await call.write(serialized(pb.Frame(sent_ns=switch.clock.own_ns(), hello=hello)))
            opening = pb.Frame.FromString(await _first(call))
            self._check_terms(opening.welcome)
            self._sampled_ns = 0  # the parent may have another clock than before
            self._note_time(opening)
            outbox = switch.neighbour_connected(self._parent)
            self._retry.welcomed()
            try:
                await both(self._read(call), self._write(call, outbox))
            except asyncio.CancelledError:
                switch.stopping = True
                raise
            finally:
                switch.neighbour_disconnected(self._parent, outbox)
        finally:
            call.cancel()

    def _check_terms(self, welcome: pb.Welcome) -> None:
        """A parent may not have compared its terms with this switch's Hello."""
        slots, policy = self._switch.slots, self._switch.config.policy
        for what, found, own in (
            ("horizon", welcome.horizon, slots.horizon),
            ("slot_length", welcome.slot_length_ns, slots.length_ns),
            ("policy", welcome.policy, policy),
        ):
            if found != own:
                raise BadMessage(what, f"{self._parent} has {found!r}, this switch {own!r}")

    async def _read(self, call: grpc.aio.StreamStreamCall) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            frame = pb.Frame.FromString(data)
            self._note_time(frame)
            await self._streams.take_frame(self._parent, frame)

    async def _write(self, call: grpc.aio.StreamStreamCall, outbox: Outbox[Outgoing]) -> None:
        pace = FramePace(self._switch.slots.length_ns / 1e9)

        def frame_of(envelopes: list[pb.Envelope]) -> bytes:
            return serialized(pb.Frame(sent_ns=self._switch.clock.own_ns(), envelope=envelopes))

        while outgoing := await outbox.take(pace):
            for frame in frames(self._switch.name, outgoing, frame_of):
                await call.write(frame)
        raise BadMessage("slow", "the parent does not read its messages")

    def _note_time(self, frame: pb.Frame) -> None:
        """One sample a slot. With a sample of every frame, the best of the last few would all be of one moment, and a
        moment in which all frames had to wait would shift the clock. A frame that took a slot or more is no sample.
        """
        if not self._follows_clock or not frame.HasField("clock"):
            return
        clock, slot_ns, received_ns = frame.clock, self._switch.slots.length_ns, self._switch.clock.own_ns()
        under_way_ns = (received_ns - clock.echo_ns) - (clock.sent_ns - clock.received_ns)
        if received_ns - self._sampled_ns >= slot_ns and under_way_ns < slot_ns:
            self._sampled_ns = received_ns
            self._switch.clock.peer.observe(clock.echo_ns, clock.received_ns, clock.sent_ns, received_ns)


async def _first(call: grpc.aio.StreamStreamCall) -> bytes:
    data: bytes = await call.read()
    if data is grpc.aio.EOF:
        raise DecodeError("the parent ended the stream")
    return data
