"""A real switch on the board: what each job has of its links, and a switch that goes and comes back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from paceline.flowcore.model.topology import star
from paceline.web.board import Board, Daemon
from paceline.web.switch_source import CROSS_TRAFFIC, SwitchSource
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import open_channel
from paceline.wire.codec import BadMessage
from paceline.wire.watching import snapshot_of
from tests.switchd.conftest import fabric
from tests.switchd.fabric import Fabric, claim, flow, until

__all__ = ["fabric"]  # a fixture

pytestmark = pytest.mark.slow
Make = Callable[..., Awaitable[Fabric]]


@asynccontextmanager
async def watched(cluster: Fabric, switch: str) -> AsyncIterator[tuple[Board, Daemon]]:
    board, address = Board(), cluster.address(switch)
    task = asyncio.create_task(SwitchSource(board, address, lambda: open_channel(address, None)).run())
    try:
        yield board, board.daemons[0]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_links_are_divided_by_job(fabric: Make) -> None:
    topology = star(3, 1.0)
    cluster = await fabric(topology, policy="mlcc")
    [switch] = topology.switches
    host = await cluster.joined("h0")
    async with watched(cluster, switch) as (board, daemon):
        await until(lambda: not daemon.away)
        assert daemon.facts["hosts"] == ["h0"] and daemon.facts["policy"] == "mlcc" and daemon.name == switch

        async def claims() -> None:
            while True:
                one = claim(topology, flow("bert", "h0", "h1"), *[3e8] * 10, urgency=2.5)
                more = claim(topology, flow("bert", "h0", "h2"), *[1e8] * 10)
                await host.ask(one, more, claim(topology, flow("gpt", "h0", "h1"), *[1e8] * 10), others_bps=2e8)
                await asyncio.sleep(0.02)

        task = asyncio.create_task(claims())
        try:
            uplink = f"h0->{switch}"
            await until(lambda: daemon.timelines[uplink].now_bps.get("gpt"))
            state = board.state()
            [link] = [link for link in state["links"] if link["name"] == uplink]
            jobs = {"bert": 400_000_000, "gpt": 100_000_000}
            assert link["jobs"] == jobs | {CROSS_TRAFFIC: 200_000_000} and link["load_bps"] == 700_000_000
            assert link["kind"] == "promised" and link["capacity_bps"] == 1e9
            rows = {row["name"]: row for row in state["jobs"]}
            assert rows["bert"]["weight"] == 2.5 and rows["bert"]["phase"] == "sending"
        finally:
            task.cancel()
        await until(lambda: all(row["phase"] == "computing" for row in board.state()["jobs"]))


async def test_shares_count_where_the_policy_divides_and_a_job_that_waits_says_for_what(fabric: Make) -> None:
    topology = star(2, 1.0)
    cluster = await fabric(topology, policy="paceline")
    [switch] = topology.switches
    host = await cluster.joined("h0")
    async with watched(cluster, switch) as (board, _):

        async def claims() -> None:
            while True:
                one = claim(topology, flow("bert", "h0", "h1"), urgency=9.0)
                await host.ask(one, claim(topology, flow("gpt", "h0", "h1"), urgency=1.0))
                await asyncio.sleep(0.02)

        task = asyncio.create_task(claims())
        try:
            rows = lambda: {row["name"]: row for row in board.state()["jobs"]}  # noqa: E731
            await until(lambda: rows().get("gpt", {}).get("phase") == "waiting")
            assert rows()["bert"]["phase"] == "sending" and rows()["bert"]["rate_bps"] > 9e8
            assert (
                "worth more there now: bert" in rows()["gpt"]["why"][0] and f"h0->{switch}" in rows()["gpt"]["why"][0]
            )
        finally:
            task.cancel()


async def test_a_switch_that_goes_is_away_and_comes_back(fabric: Make) -> None:
    topology = star(2, 1.0)
    cluster = await fabric(topology)
    [switch] = topology.switches
    async with watched(cluster, switch) as (board, daemon):
        await until(lambda: not daemon.away)
        await cluster.stop(switch)
        await until(lambda: daemon.away)
        assert board.state()["daemons"][0]["why"]
        await cluster.start(switch)
        await until(lambda: not daemon.away)


def test_an_older_switch_tells_no_jobs_and_a_broken_one_is_refused() -> None:
    old = pb.TableSnapshot(name="s0", slot=1, slot_length_ns=60, link=["l"], capacity_bps=[1e9], horizon=1)
    old.load_bps[:], old.flows[:] = [5e8], [1]
    assert snapshot_of(old.SerializeToString()).job_loads == ()
    for broken in (
        pb.TableSnapshot(job=["a"], urgency=[]),
        pb.TableSnapshot(part_link=[0], part_job=[0], part_bps=[1.0], part_share_bps=[1.0]),
        pb.TableSnapshot(part_link=[0]),
    ):
        with pytest.raises(BadMessage):
            snapshot_of(broken.SerializeToString())
