"""Plans are leases, switches keep nothing: a peer that dies is forgotten, and a peer that returns is rebuilt."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import star, tree
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import CHANNEL_OPTIONS, SERVICE, open_channel, path
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow, until
from tests.switchd.processes import Switches, run
from tests.switchd.reporting import Reporter

pytestmark = pytest.mark.slow

STAR = star(4, 1.0)
SLOT_MS = 400.0  # so that two slots are two slots on a busy machine as well
SLOT_S = SLOT_MS / 1e3
MOST_LATE = 3  # a busy machine is late by itself now and then
SLOTS = SlotClock(round(SLOT_MS * 1e6), 10)
TREE = tree(3, 2, 1, (1.0, 10.0, 10.0))
TREE_TOML = 'kind = "tree"\nservers_per_tor = 3\ntors_per_edge = 2\nedges = 1\nlink_gbps = [1.0, 10.0, 10.0]'
# Until those below a switch that serves again have noticed: a try may have failed just before, and then gRPC's back-off
# and ours pass before the next (paceline/wire/calls.py, RETRY_S).
RECONNECT_S = 0.15
# h0-h2 under tor0, h3-h5 under tor1; all send to the other rack.
FLOWS = [flow("job", f"h{n}", f"h{(n + 3) % 6}") for n in range(6)]


async def test_a_host_silent_for_three_slots_loses_its_plans(fabric) -> None:
    net: Fabric = await fabric(STAR)
    h0, h2 = await net.joined("h0"), await net.joined("h2")
    mine, other = flow("a", "h0", "h1"), flow("c", "h2", "h1")
    slot = (await h0.ask(claim(STAR, mine, *[1e9] * 10))).first_slot
    await h0.close()
    await until(lambda: "h0" not in net.switch("sw").hosts)
    while (await h2.ask(claim(STAR, other, *[1e9] * 10))).grants[0].accepted is False:
        await asyncio.sleep(0.01)
    assert net.slot("sw") - slot > 3  # not before: it might have come back
    assert mine not in net.switch("sw").agent.table


async def test_a_host_that_reconnects_in_time_keeps_its_plans(fabric) -> None:
    net: Fabric = await fabric(STAR)
    h0, h2 = await net.joined("h0"), await net.joined("h2")
    await h0.ask(claim(STAR, flow("a", "h0", "h1"), *[1e9] * 10))
    await h0.close()
    await net.joined("h0")
    assert not (await h2.ask(claim(STAR, flow("c", "h2", "h1"), *[1e9] * 10))).grants[0].accepted


async def test_a_lost_parent_is_shown_to_hosts_and_taken_back(fabric) -> None:
    net: Fabric = await fabric(TREE, policy="paceline")
    h0 = await net.joined("h0")
    assert (await h0.ask(claim(TREE, FLOWS[0], 1e8))).silent == ()
    await net.stop("edge0")
    answer = await h0.ask(claim(TREE, FLOWS[0], *[1e8] * 10))
    assert {"edge0", "tor1"} <= set(answer.silent)
    assert answer.grants[0].accepted
    assert answer.grants[0].share_bps == 1e9  # what tor0 alone can give
    await net.start("edge0")
    async with asyncio.timeout(10):
        while (await h0.ask(claim(TREE, FLOWS[0], *[1e8] * 10))).silent:
            await asyncio.sleep(0.02)
    assert FLOWS[0] in net.switch("edge0").agent.table


async def test_a_tor_that_returns_within_the_lease_has_its_shares_again(fabric) -> None:
    """Its parent still holds them, and sees no change."""
    net: Fabric = await fabric(TREE, policy="paceline", slots=SlotsSpec(1000.0, 10))
    h0 = await net.joined("h0", fresh=True)
    assert (await h0.ask(claim(TREE, FLOWS[0], 1e8))).grants[0].share_bps == 1e9
    await h0.close()
    await net.stop("tor0")
    await net.start("tor0")
    back = await net.joined("h0", fresh=True)
    assert FLOWS[0] in net.switch("edge0").agent.table  # its lease has not ended
    assert (await back.ask(claim(TREE, FLOWS[0], 1e8))).grants[0].share_bps == 1e9


# ---- kill -9, and SIGSTOP ----


class Run:
    """Processes for switches, six hosts that report every slot."""

    def __init__(self, switches: Switches, reporters: list[Reporter]) -> None:
        self.switches, self.reporters = switches, reporters

    async def all_answered(self, reporters: list[Reporter] | None = None, *, since_s: float = 0.0) -> None:
        for one in reporters or self.reporters:
            await until(lambda one=one: one.first_accepted_after(since_s) is not None)

    def late(self, reporters: list[Reporter], start_s: float, end_s: float) -> tuple[int, int]:
        """How many of the reports sent in a time were not answered within three slots, and how many there were."""
        reports = [report for one in reporters for report in one.between(start_s, end_s)]
        return sum(one.latency_s is None or one.latency_s > 3 * SLOT_S for one in reports), len(reports)


@asynccontextmanager
async def running(place: Path, hosts: range = range(6)) -> AsyncIterator[Run]:
    switches = Switches(TREE, TREE_TOML, place, SLOT_MS)
    reporters = [Reporter(FLOWS[n]) for n in hosts]
    channels = [open_channel(switches.addresses[TREE.switch_of[one.flow.source]], None) for one in reporters]
    switches.start()
    tasks = [asyncio.create_task(one.run(channel, SLOTS)) for one, channel in zip(reporters, channels, strict=True)]
    try:
        run = Run(switches, reporters)
        await run.all_answered()
        yield run
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            await channel.close()
        switches.close()


async def slots(count: float) -> None:
    await asyncio.sleep(count * SLOT_S)


@pytest.mark.parametrize(("victim", "fate"), [("tor0", "killed"), ("edge0", "killed"), ("edge0", "hung")])
async def test_a_switch_goes_and_comes_back(tmp_path: Path, victim: str, fate: str) -> None:
    async with running(tmp_path) as run:
        below, others = run.reporters[:3], run.reporters[3:]
        gone_s = time.monotonic()
        if fate == "killed":
            run.switches.kill(victim)
            await slots(8)
            returning_s = time.monotonic()
            run.switches.start(victim)
            returned_s = await _serves(run.switches.addresses[victim])
        else:
            run.switches.signal(victim, signal.SIGSTOP)
            await slots(8)
            returning_s = returned_s = time.monotonic()
            run.switches.signal(victim, signal.SIGCONT)
        await run.all_answered(since_s=returning_s)
        await slots(4)
        # Those whose own switch lives keep their slots, the one in flight at the break included.
        kept = others if victim == "tor0" else run.reporters
        late, sent = run.late(kept, gone_s - SLOT_S, returned_s)
        assert sent >= 6 * len(kept)
        assert late <= MOST_LATE
        meanwhile = [report for one in kept for report in one.between(gone_s + 3 * SLOT_S, gone_s + 8 * SLOT_S)]
        assert all(victim in report.answer.silent for report in meanwhile if report.answer)
        # All hosts' plans are in all tables again two slots after the return.
        if victim == "tor0":
            assert all(one.lost_s for one in below)
        rebuilt_s = max(one.first_accepted_after(returning_s) for one in run.reporters)
        assert rebuilt_s - returned_s <= 2 * SLOT_S + (RECONNECT_S if fate == "killed" else 0.0)


async def _serves(address: str) -> float:
    """When it says so for the first time."""
    async with grpc.aio.insecure_channel(address, CHANNEL_OPTIONS) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(grpc.aio.AioRpcError):  # it does not listen yet, or does not know the service yet
                    answer = await check(health_pb2.HealthCheckRequest(service=SERVICE))
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return time.monotonic()
                await asyncio.sleep(0.01)


async def test_a_third_of_the_hosts_is_killed(tmp_path: Path) -> None:
    async with running(tmp_path, range(4)) as two_thirds:
        tor1 = two_thirds.switches.addresses["tor1"]
        victims = run("tests.switchd.reporting", tor1, str(SLOT_MS), *map(str, FLOWS[4:]))
        try:
            async with open_channel(tor1, None) as channel:
                request = pb.WatchRequest(link=["h4->tor1", "h5->tor1"]).SerializeToString()
                table = channel.unary_stream(path("Watch"))(request)
                while sum((await _next(table)).flows) < 2:
                    pass
                killed_s = time.monotonic()
                victims.kill()
                while sum((snapshot := await _next(table)).flows):
                    pass
                forgotten_s = time.monotonic()
                table.cancel()
        finally:
            victims.kill()
            victims.communicate()
        assert not any(snapshot.load_bps)
        assert 2 * SLOT_S < forgotten_s - killed_s < 10 * SLOT_S  # a lease, not more than it takes on a busy machine
        await slots(2)
        late, sent = two_thirds.late(two_thirds.reporters, killed_s - SLOT_S, time.monotonic() - 2 * SLOT_S)
        assert sent >= 2 * len(two_thirds.reporters)
        assert late <= MOST_LATE
        assert not any(one.lost_s for one in two_thirds.reporters)


async def _next(table) -> pb.TableSnapshot:
    return pb.TableSnapshot.FromString(await asyncio.wait_for(table.read(), 20))
