"""A host's stream to a real switch: whatever ends it, it is opened again."""

import asyncio
import time

import pytest

from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.topology import star
from paceline.wire.calls import open_channel
from paceline.wire.codec import REPORT
from paceline.wire.host_stream import HostStream
from tests.switchd.fabric import Fabric, claim, flow, until

STAR = star(2, 1.0)
CLAIM = claim(STAR, flow("a", "h0", "h1"), 1e8)


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), asyncio.InvalidStateError("the call has ended")], ids=str)
async def test_a_report_that_cannot_be_written_ends_the_stream_for_both_directions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def once(report: Report) -> object:
        monkeypatch.undo()
        raise error

    net = Fabric(STAR)
    await net.start()
    heard: list[object] = []
    async with open_channel(net.address("sw"), None) as channel:
        stream = HostStream(
            channel,
            "h0",
            STAR.fingerprint,
            time.time_ns,
            ClockEstimate(),
            on_welcome=lambda terms: heard.append("welcome"),
            on_feedback=heard.append,
            on_lost=lambda: heard.append("lost"),
        )
        running = asyncio.create_task(stream.run())
        try:
            await until(lambda: stream.connected)
            monkeypatch.setattr(REPORT, "to_wire", once)
            assert stream.send(Report("h0", 1, net.slot("sw"), (CLAIM,)))
            await until(lambda: heard == ["welcome", "lost", "welcome"])
            assert stream.send(Report("h0", 2, net.slot("sw"), (CLAIM,)))
            await until(lambda: len(heard) > 3)
            assert isinstance(heard[3], Feedback) and heard[3].answers == 2
            assert str(error) in caplog.text
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await net.close()
