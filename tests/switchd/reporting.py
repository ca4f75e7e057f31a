"""Hosts that report every slot, as hostd does, and note what comes of it; also as a process of their own:

python -m tests.switchd.reporting ADDRESS SLOT_MS FLOW…        each flow is reported by its source, until killed
"""

import asyncio
import math
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import grpc

from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.messages.reports import Bid, Claim, Feedback, Report
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.slots import SlotClock
from paceline.wire.calls import open_channel
from paceline.wire.codec import flow_of
from paceline.wire.host_stream import HostStream, Terms


@dataclass(slots=True)
class Reported:
    """One report and how long its answer took; None: it has not come."""

    at_s: float
    latency_s: float | None = None
    answer: Feedback | None = None


@dataclass
class Reporter:
    """One host with one flow and a plan for it in every slot."""

    flow: FlowId
    plan_bps: float = 1e8
    reports: dict[int, Reported] = field(default_factory=dict)
    welcomed_s: list[float] = field(default_factory=list)
    lost_s: list[float] = field(default_factory=list)

    async def run(self, channel: grpc.aio.Channel, slots: SlotClock) -> None:
        estimate = ClockEstimate()
        stream = HostStream(
            channel,
            self.flow.source,
            "",
            time.time_ns,
            estimate,
            on_welcome=self._welcome,
            on_feedback=self._feedback,
            on_lost=self._lost,
        )
        self._phase_ns = 0
        running = asyncio.create_task(stream.run())
        try:
            while True:
                now_ns = time.time_ns() + estimate.offset_ns(time.time_ns())
                due_ns = slots.next_start_ns(now_ns - self._phase_ns) + self._phase_ns
                await asyncio.sleep((due_ns - now_ns) / 1e9)
                number = len(self.reports) + 1
                claim = Claim(self.flow, (), 25e6, Bid(1.0), 0.0, 0.0, (), (), (self.plan_bps,) * slots.horizon)
                sent = stream.send(Report(self.flow.source, number, slots.index(due_ns), (claim,)))
                self.reports[number] = Reported(time.monotonic() if sent else math.inf)  # never, without a stream
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _welcome(self, terms: Terms) -> None:
        self.welcomed_s.append(time.monotonic())
        self._phase_ns = terms.phase_ns

    def _lost(self) -> None:
        if self.welcomed_s:  # else it is not up yet
            self.lost_s.append(time.monotonic())

    def _feedback(self, feedback: Feedback) -> None:
        """Of several reports that wait the last is answered, and with it the others: they named the same flow."""
        for number, reported in self.reports.items():
            if number <= feedback.answers and reported.answer is None and reported.at_s < math.inf:
                reported.latency_s, reported.answer = time.monotonic() - reported.at_s, feedback

    def between(self, start_s: float, end_s: float) -> list[Reported]:
        return [reported for reported in self.reports.values() if start_s <= reported.at_s < end_s]

    def first_accepted_after(self, start_s: float) -> float | None:
        """When the first answer came that has the plan in all tables and all switches in it."""
        times = [
            one.at_s + one.latency_s
            for one in self.reports.values()
            if one.answer and one.latency_s and all(g.accepted for g in one.answer.grants) and not one.answer.silent
        ]
        return min((at_s for at_s in times if at_s >= start_s), default=None)


async def _main(address: str, slot_ms: str, *flows: str) -> None:
    slots = SlotClock(round(float(slot_ms) * 1e6), 10)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for text in flows:
            channel = await stack.enter_async_context(open_channel(address, None))
            tasks.create_task(Reporter(flow_of(text)).run(channel, slots))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
