"""A host's stream to its switch, kept open.

Law: reports leave and answers are taken only while the switch has this host's slots and policy; a switch compares them
with the Hello, and one that did not would divide its links for claims that are never used.

The stream feeds the estimate of the switch's clock and is opened again after a break, about once a slot, and less often
where it is refused (retry.py). No report is queued while it is closed: a report is about the current slot, and the next
report replaces it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, path
from paceline.wire.codec import FEEDBACK, REPORT, BadMessage
from paceline.wire.duplex import both
from paceline.wire.hello import tell_topology
from paceline.wire.host_state import HostState, to_wire
from paceline.wire.retry import RETRY_S, Retry, may_be_a_certificate

_log = logging.getLogger(__name__)

# Reports that wait for a switch that does not read; the next report repeats what they say.
MAX_WAITING = 64


@dataclass(frozen=True, slots=True)
class Terms:
    """The switch's terms, from its Welcome."""

    switch: str
    epoch_ns: int
    slot_length_ns: int
    horizon: int
    phase_ns: int
    policy: str


class HostStream:
    """`own_ns` reads this machine's clock; `estimate` learns how far the switch's is from it.

    Without `slots` any switch will do. `on_lost` is called at the end of every stream, where the switch's terms are
    not this host's, and once if the first stream cannot be opened. With `reopen` a refused stream gets a new channel:
    gRPC itself would go on with handshakes on the old one. `diagnose` says why a handshake fails.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        host: str,
        topology: str,
        own_ns: Callable[[], int],
        estimate: ClockEstimate,
        *,
        slots: SlotClock | None = None,
        policy: str = "",
        on_welcome: Callable[[Terms], None],
        on_feedback: Callable[[Feedback], None],
        on_lost: Callable[[], None],
        reopen: Callable[[], grpc.aio.Channel] | None = None,
        diagnose: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        self.connected = False
        self.off_by_ns = 0  # by how much this machine's clock is off, says the switch
        self.refused = ""  # why the switch refused the last stream, or its terms are refused here
        self.silent: tuple[str, ...] = ()  # switches that do not answer, says this one
        self.channel = channel
        self._reopen, self._diagnose, self._retry = reopen, diagnose, Retry()
        self._renewed = asyncio.Event()  # there are other certificates: the next stream is tried at once, with them
        self._hello = pb.Hello(
            name=host,
            protocol=PROTOCOL,
            topology=topology,
            horizon=slots.horizon if slots is not None else 0,
            slot_length_ns=slots.length_ns if slots is not None else 0,
            policy=policy,
        )
        self._slots = slots
        self._own_ns, self._estimate = own_ns, estimate
        self._on_welcome, self._on_feedback, self._on_lost = on_welcome, on_feedback, on_lost
        self._waiting: asyncio.Queue[Report | HostState] = asyncio.Queue(MAX_WAITING)
        self._takes_state = False  # the switch does

    def send(self, report: Report | HostState) -> bool:
        """False: the stream is closed, refused or stuck, and the report is lost; the next one takes its place."""
        if self.connected and not self.refused and not self._waiting.full():
            self._waiting.put_nowait(report)
            return True
        return False

    def tell(self, state: HostState) -> None:
        """For people who ask the switch; lost where it is too old, or where the stream is closed or stuck."""
        if self._takes_state:
            self.send(state)

    async def run(self) -> None:
        """Until cancelled."""
        told = False
        while True:
            failure: Exception | None = None
            try:
                await self._converse()
                self.refused = "the switch ended the stream"
            except (grpc.aio.AioRpcError, DecodeError, BadMessage) as error:
                failure = error
                reason = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
                await self._note_refusal(error, reason or "no reason given")
            if self.connected or not told:
                self.connected, told = False, True
                self._on_lost()
            await self._pause(self._retry.delay_s(failure))

    def knows(self, topology: Topology) -> None:
        """This host's topology, from the next stream on."""
        tell_topology(self._hello, topology)

    def renew(self) -> None:
        """Streams from now on have a channel that `reopen` makes; one that is open goes on."""
        self._renewed.set()

    async def _note_refusal(self, error: Exception, reason: str) -> None:
        if self._diagnose is not None and may_be_a_certificate(error):
            if self._retry.refusals:
                return  # and it has been said why
            reason = await self._diagnose() or reason
        if reason != self.refused:
            _log.warning("no stream to the switch: %s", reason)
        self.refused = reason

    async def _pause(self, delay_s: float) -> None:
        if self._reopen is None or (delay_s <= RETRY_S and not self._renewed.is_set()):
            await asyncio.sleep(delay_s)
            return
        await self.channel.close()
        try:
            await asyncio.wait_for(self._renewed.wait(), delay_s)
            self._renewed.clear()
        except TimeoutError:
            pass
        self.channel = self._reopen()

    async def _converse(self) -> None:
        call = self.channel.stream_stream(path("Negotiate"))()
        while not self._waiting.empty():  # about a time that has passed
            self._waiting.get_nowait()
        try:
            await call.write(pb.HostMessage(sent_ns=self._own_ns(), hello=self._hello).SerializeToString())
            await both(self._read(call), self._write(call))
        finally:
            call.cancel()

    async def _read(self, call: grpc.aio.StreamStreamCall) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            message = pb.SwitchMessage.FromString(data)
            self._note_time(message.clock)
            match message.WhichOneof("body"):
                case "feedback" if self.connected and not self.refused:
                    feedback = FEEDBACK.from_wire(message.feedback)
                    self.silent = feedback.silent
                    self._on_feedback(feedback)
                case "welcome" if not self.connected:
                    terms = terms_of(message.welcome)
                    self.connected, self.refused = True, self._why_not(terms)
                    self._takes_state = message.welcome.takes_state
                    self._retry.welcomed()
                    if self.refused:
                        _log.error("the switch is not asked: %s", self.refused)
                        self._on_lost()
                    else:
                        self._on_welcome(terms)

    async def _write(self, call: grpc.aio.StreamStreamCall) -> None:
        while True:
            waiting = await self._waiting.get()
            try:
                message = pb.HostMessage(sent_ns=self._own_ns())
                if isinstance(waiting, Report):
                    message.report.CopyFrom(REPORT.to_wire(waiting))
                else:
                    message.state.CopyFrom(to_wire(waiting))
                await call.write(message.SerializeToString())
            except grpc.aio.AioRpcError:
                raise
            except Exception as error:  # a fault in writing a report ends the stream, not the daemon
                raise BadMessage("report", f"the report could not be sent: {error!r}") from error

    def _why_not(self, terms: Terms) -> str:
        """Why the switch's answers do not count; empty if they do."""
        slots, theirs = self._slots, (terms.slot_length_ns, terms.horizon, terms.epoch_ns, terms.policy)
        if slots is None or theirs == (slots.length_ns, slots.horizon, slots.epoch_ns, self._hello.policy):
            return ""
        return (
            f"{terms.switch} has {terms.horizon} slots of {terms.slot_length_ns / 1e6:g} ms since {terms.epoch_ns} ns "
            f"and policy {terms.policy}; configure the same in both"
        )

    def _note_time(self, clock: pb.ClockEcho) -> None:
        self._estimate.observe(clock.echo_ns, clock.received_ns, clock.sent_ns, self._own_ns())
        self.off_by_ns = clock.off_by_ns


def terms_of(welcome: pb.Welcome) -> Terms:
    if welcome.slot_length_ns <= 0 or welcome.horizon < 1:
        raise BadMessage("shape", "a Welcome without slot length or horizon")
    return Terms(
        welcome.name,
        welcome.epoch_ns,
        welcome.slot_length_ns,
        welcome.horizon,
        welcome.phase_ns,
        welcome.policy,
    )
