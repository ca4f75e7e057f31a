"""One host of the negotiation benchmark: sends a message once a slot, and notes when it is answered."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from bench.micro.load_hosts import LoadHost
from bench.micro.raw_stream import RawStream, StreamEnded
from paceline.failure import Failure
from paceline.flowcore.model.slots import SlotClock
from paceline.service.shared_clock import SharedClock
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import PROTOCOL, open_channel, path


@dataclass(slots=True)
class Tally:
    """The outcome of all hosts' messages. Spans are from sending to having decided, or to giving up after a slot."""

    decided_s: list[tuple[float, float]] = field(default_factory=list)  # of the hosts that decide, with their missed
    missed_s: list[tuple[float, float]] = field(default_factory=list)  # of all hosts
    echoes_ms: list[float] = field(default_factory=list)  # bare gRPC beside it
    negotiations: int = 0
    refused: int = 0
    answered: int = 0


class StreamLost(Failure):
    """A switch ended the stream of a host; str() is the line that is printed."""


class Conversation:
    """One host's stream, from Hello to the last slot."""

    def __init__(self, host: LoadHost, slots: SlotClock, clock: SharedClock, tally: Tally, *, together: bool) -> None:
        """`together`: all hosts send at the slot's beginning, whatever phase the switch gives them."""
        self._host, self._slots, self._clock, self._tally = host, slots, clock, tally
        self._together = together
        self._channel: grpc.aio.Channel | None = None
        self._reading: asyncio.Task[None] | None = None
        self._number = 0
        self._sent_s = 0.0
        self._answered = True
        self._counted = False  # whether the message that waits for its answer is one of those measured

    async def open(self, address: str) -> None:
        """A host that decides is measured, with gRPC at its end; the other hosts only load the switch."""
        self._call: Any  # of gRPC, or a RawStream
        if self._host.decides:
            self._channel = open_channel(address, None)
            self._call = self._channel.stream_stream(path("Negotiate"))(wait_for_ready=True)
            answer = await self._greet()
        else:
            self._call = await RawStream.open(address, path("Negotiate"))
            while (answer := await self._greet()) is grpc.aio.EOF:  # a switch that has only just begun to listen
                self._call = await RawStream.open(address, path("Negotiate"))
        self.phase_ns = 0 if self._together else pb.SwitchMessage.FromString(answer).welcome.phase_ns
        self._reading = asyncio.create_task(self._read())

    async def _greet(self) -> Any:
        hello = pb.Hello(name=self._host.name, protocol=PROTOCOL)
        await self._call.write(pb.HostMessage(sent_ns=self._clock.own_ns(), hello=hello).SerializeToString())
        return await self._call.read()

    async def run(self, begin: int, first: int, count: int) -> None:
        """Warms up from slot `begin` on, is measured from `first` on for `count` slots."""
        end = first + count
        for slot in range(begin, end + 1):
            await until(self._slots.start_ns(slot) + self.phase_ns, self._clock)
            if self._counted and not self._answered:
                self._miss()
            if slot < end:
                await self._send(counted=slot >= first)

    def _miss(self) -> None:
        """Counts as a slot at least: without missed slots a switch would look the quicker the more it misses."""
        self._answered = True  # the host waits no longer
        span_s = self._sent_s, max(time.perf_counter(), self._sent_s + self._slots.length_ns / 1e9)
        self._tally.missed_s.append(span_s)
        if self._host.decides:
            self._tally.decided_s.append(span_s)

    async def _send(self, counted: bool) -> None:
        now_ns = self._clock.own_ns()
        self._number += 1
        self._answered, self._counted = False, counted
        self._tally.negotiations += self._counted
        self._sent_s = time.perf_counter()
        try:
            await self._call.write(self._host.message(self._number, self._slots.index(now_ns), now_ns))
        except StreamEnded as error:
            raise StreamLost(f"{self._host.name} lost its stream: {error}") from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            reason = f"{(await self._call.code()).name}, {await self._call.details()}"
            raise StreamLost(f"{self._host.name} lost its stream: {reason}") from None

    async def _read(self) -> None:
        host, tally = self._host, self._tally
        slot_s = self._slots.length_ns / 1e9
        while (data := await self._call.read()) is not grpc.aio.EOF:
            feedback = pb.SwitchMessage.FromString(data).feedback
            if feedback.answers != self._number or self._answered:
                continue  # a push, or the answer to a slot that was missed
            self._answered = True
            if host.decides:
                host.decide(feedback, self._slots.horizon, slot_s)
            if self._counted:
                tally.answered += len(feedback.flow)
                tally.refused += len(feedback.flow) - sum(feedback.accepted)
                if host.decides:
                    tally.decided_s.append((self._sent_s, time.perf_counter()))
            if host.decides:
                host.freeze()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._call.cancel()
        if self._channel is not None:
            await self._channel.close()


async def until(when_ns: int, clock: SharedClock) -> None:
    await asyncio.sleep(max(0.0, (when_ns - clock.own_ns()) / 1e9))
