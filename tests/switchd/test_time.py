"""One time for all: phases, clocks that are off, hosts and switches that follow."""

import asyncio
import time
from itertools import pairwise

import pytest

from paceline.flowcore.detect.clocks import ClockEstimate
from paceline.flowcore.messages.reports import Feedback, Report, Withdrawal
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import clos, star, tree
from paceline.flowcore.switch.agent import REALLOCATIONS_PER_SLOT
from paceline.service.shared_clock import SharedClock
from paceline.wire.calls import open_channel
from paceline.wire.codec import REPORT
from paceline.wire.host_stream import HostStream, Terms
from switchd import switch as switch_module
from switchd.clock_watch import ENOUGH, ClockWatch
from switchd.config import SwitchConfig
from switchd.switch import Switch
from switchd.topology.phases import FEW_HOSTS, REPORT_GROUPS, phases
from tests.switchd.fabric import PATIENCE_S, Fabric, claim, flow, until

STAR = star(4, 1.0)
TREE = tree(1, 2, 2, (1.0, 1.0, 1.0))
CLOS = clos(12, 2, 1, (1.0, 1.0))
SLOT_NS = 60_000_000
A = flow("a", "h0", "h1")
B = flow("b", "h0", "h1")


async def test_phases_are_spread_over_the_slot(fabric) -> None:
    net: Fabric = await fabric(STAR)
    welcomes = [await net.host(name).hello() for name in STAR.hosts]
    assert [welcome.phase_ns for welcome in welcomes] == [SLOT_NS * sixteenth // 16 for sixteenth in (1, 5, 9, 13)]
    one = welcomes[0]
    assert (one.name, one.protocol, one.slot_length_ns, one.horizon) == ("sw", 1, SLOT_NS, 10)
    assert (one.epoch_ns, one.policy) == (0, "mlcc")


async def test_racks_take_turns(fabric) -> None:
    net: Fabric = await fabric(TREE)
    welcomes = [await net.host(name).hello() for name in TREE.hosts]
    assert sorted(welcome.phase_ns for welcome in welcomes) == [
        SLOT_NS * (4 * step + 1) // (4 * len(welcomes)) for step in range(len(welcomes))
    ]


@pytest.mark.parametrize("racks", [1, 2, 3, 7])
@pytest.mark.parametrize("servers", [1, 2, 3, 4, 5, 24])
def test_no_host_reports_while_the_switches_divide_links(racks: int, servers: int) -> None:
    """They divide at the slot\'s beginning and in its middle: a quarter of a step is kept from both."""
    topology = clos(servers, racks, 1, (1.0, 1.0))
    steps = racks * (REPORT_GROUPS if servers > FEW_HOSTS else servers)
    half_ns, apart_ns = SLOT_NS // REALLOCATIONS_PER_SLOT, SLOT_NS // (4 * steps)
    for rack in range(racks):
        for phase_ns in phases(topology, f"tor{rack}", SLOT_NS).values():
            assert 0 <= phase_ns < SLOT_NS
            assert apart_ns <= phase_ns % half_ns <= half_ns - apart_ns


def test_a_large_rack_reports_in_groups() -> None:
    racks = [set(phases(CLOS, tor, SLOT_NS).values()) for tor in ("tor0", "tor1")]
    assert len(racks[0]) == len(racks[1]) == REPORT_GROUPS
    assert not racks[0] & racks[1]
    both_ns = sorted(racks[0] | racks[1])
    gaps_ns = {later - earlier for earlier, later in pairwise(both_ns)}
    assert gaps_ns == {SLOT_NS // (2 * REPORT_GROUPS)}


async def test_a_host_whose_clock_is_off_is_told_and_counted_once(fabric) -> None:
    net: Fabric = await fabric(STAR)
    wrong, right = await net.joined("h0"), await net.joined("h1")
    clock = net.switch("sw").clock
    for _ in range(ENOUGH + 2):
        await wrong.ask(claim(STAR, A), sent_ns=clock.now_ns() + SLOT_NS)
        await right.ask(claim(STAR, flow("b", "h1", "h0")), sent_ns=clock.now_ns())
    assert 0.8 * SLOT_NS < wrong.clock.off_by_ns <= SLOT_NS
    assert right.clock.off_by_ns == 0
    assert net.switch("sw").refused == {"clock": 1}
    assert wrong.ended is None  # told, not turned away


def test_delays_are_no_offset() -> None:
    """Of a slow host's messages the quickest counts."""
    watch = ClockWatch(6_000_000)
    for delay_ns in (50, 30, 1, 40, 60, 20, 50, 50):
        watch.observe(1_000_000_000, 1_000_000_000 + delay_ns * 1_000_000)
    assert watch.off_by_ns == 0
    for _ in range(2 * ENOUGH):
        watch.observe(-(2**63), 1_700_000_000_000_000_000)
    assert -(2**63) < watch.off_by_ns < 0  # it must fit into the message that says so


async def test_a_host_follows_the_clock_of_its_switch(fabric) -> None:
    """A host that is 5 s ahead learns so from the stream, and then knows the switch's time."""
    net: Fabric = await fabric(STAR)
    ahead_ns, estimate = 5_000_000_000, ClockEstimate()
    heard: list[object] = []
    async with open_channel(net.address("sw"), None) as channel:
        stream = HostStream(
            channel,
            "h0",
            STAR.fingerprint,
            lambda: time.time_ns() + ahead_ns,
            estimate,
            on_welcome=heard.append,
            on_feedback=heard.append,
            on_lost=lambda: heard.append("lost"),
        )
        running = asyncio.create_task(stream.run())
        try:
            await until(lambda: stream.connected)
            assert isinstance(heard[0], Terms)
            for number in range(1, 2 * ENOUGH):
                assert stream.send(Report("h0", number, net.slot("sw"), (claim(STAR, A, 1e8),)))
                await until(lambda number=number: len(heard) > number)
            offset_ns = estimate.offset_ns(time.time_ns() + ahead_ns)
            assert abs(offset_ns + ahead_ns) < SLOT_NS / 10
            assert abs(stream.off_by_ns - ahead_ns) < SLOT_NS
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_host_that_was_suspended_learns_the_time(fabric) -> None:
    """Its clock stood still for longer than its plans reach: no claim of it counts, and it must know. What it withdraws
    has no date."""
    net: Fabric = await fabric(STAR)
    behind_ns, estimate = 0, ClockEstimate()
    heard: list[object] = []
    async with open_channel(net.address("sw"), None) as channel:
        stream = HostStream(
            channel,
            "h0",
            STAR.fingerprint,
            lambda: time.time_ns() - behind_ns,
            estimate,
            on_welcome=heard.append,
            on_feedback=heard.append,
            on_lost=lambda: heard.append("lost"),
        )
        running = asyncio.create_task(stream.run())
        try:
            await until(lambda: stream.connected)
            assert stream.send(Report("h0", 1, net.slot("sw"), (claim(STAR, A, 1e8),)))
            await until(lambda: A in net.switch("sw").agent.table)
            await until(lambda: len(heard) == 2)
            behind_ns = 20 * SLOT_NS
            gone = (Withdrawal(A, 1e8),)
            assert stream.send(Report("h0", 2, net.slot("sw") - 20, (claim(STAR, B, 1e8),), gone))
            await until(lambda: len(heard) == 3)
            assert isinstance(heard[2], Feedback) and not heard[2].grants
            assert A not in net.switch("sw").agent.table and B not in net.switch("sw").agent.table
            assert abs(estimate.offset_ns(time.time_ns() - behind_ns) - behind_ns) < SLOT_NS
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert net.switch("sw").refused == {"late": 1}


async def test_a_switch_follows_the_clock_of_its_first_parent(fabric, monkeypatch) -> None:
    """tor0 is 3 s behind the rest of the tree; a few messages later it is not."""
    late: list[SharedClock] = []
    right = SharedClock.own_ns

    def late_clock() -> SharedClock:
        late.append(SharedClock())
        return late[-1]

    monkeypatch.setattr(SharedClock, "own_ns", lambda clock: right(clock) - 3_000_000_000 * (clock in late))
    net = Fabric(TREE)
    try:
        await net.start(*TREE.switches[1:])
        monkeypatch.setattr(switch_module, "SharedClock", late_clock)
        await net.start("tor0")
        tor, agg = net.switch("tor0"), net.switch("agg")
        assert tor.clock.own_ns() < agg.clock.own_ns() - 2_000_000_000
        h0 = await net.joined("h0")
        async with asyncio.timeout(PATIENCE_S):
            while abs(tor.clock.now_ns() - agg.clock.now_ns()) > SLOT_NS / 10:  # the best of some samples counts
                await h0.ask(claim(TREE, flow("far", "h0", "h3"), 1e8))
        assert (await h0.ask(claim(TREE, flow("far", "h0", "h3"), 1e8))).silent == ()
    finally:
        await net.close()


async def test_a_switch_that_was_ahead_begins_anew_with_its_parents_time(fabric, monkeypatch) -> None:
    """tor0 was an hour ahead while its parent was away: no plan and no lease of that time remains."""
    ahead: list[SharedClock] = []
    right = SharedClock.own_ns

    def clock_ahead() -> SharedClock:
        ahead.append(SharedClock())
        return ahead[-1]

    monkeypatch.setattr(SharedClock, "own_ns", lambda clock: right(clock) + 3600 * 10**9 * (clock in ahead))
    net: Fabric = await fabric(TREE, slots=SlotsSpec(300.0, 10))
    await net.stop("edge0")
    await net.stop("tor0")
    monkeypatch.setattr(switch_module, "SharedClock", clock_ahead)
    await net.start("tor0")
    monkeypatch.setattr(switch_module, "SharedClock", SharedClock)
    tor, near = net.switch("tor0"), flow("near", "h0", "h1")
    h0, h1 = await net.joined("h0"), await net.joined("h1")
    assert (await h0.ask(claim(TREE, near, *[1e9] * 10))).grants[0].accepted
    await net.start("edge0")
    await until(lambda: tor.clock.now_ns() < tor.clock.own_ns() - 1800 * 10**9)
    await until(lambda: near not in tor.agent.table)  # without any message: the timer fires all the same
    assert (await h1.ask(claim(TREE, flow("back", "h1", "h0"), *[1e9] * 10))).grants[0].accepted
    assert tor.agent.table.load_bps("tor0->h0", net.slot("tor0") + 2) == 1e9
    await until(lambda: not len(tor.agent.table))  # leases end


async def test_the_timer_fires_for_a_clock_that_was_set_back() -> None:
    """No message arrives: the timer has to find out."""
    switch = Switch(SwitchConfig("sw", "127.0.0.1:0", STAR, SlotsSpec(60.0, 10)))
    switch.take_report(
        "h0", REPORT.to_wire(Report("h0", 1, switch.slots.index(switch.clock.now_ns()), (claim(STAR, A),)))
    )
    assert A in switch.agent.table
    own_ns = switch.clock.own_ns()
    switch.clock.peer.observe(own_ns, own_ns - 3600 * 10**9, own_ns - 3600 * 10**9, own_ns)
    await until(lambda: A not in switch.agent.table)
    switch.close()


async def test_a_parent_with_another_clock_than_before_is_followed_at_once(fabric, monkeypatch) -> None:
    right, behind = SharedClock.own_ns, []
    monkeypatch.setattr(SharedClock, "own_ns", lambda clock: right(clock) - 3600 * 10**9 * (clock in behind))
    net: Fabric = await fabric(TREE, slots=SlotsSpec(20_000.0, 10))  # far fewer than one sample a second
    tor = net.switch("tor0")
    for _ in range(20):  # samples enough to be sure of the old one
        own_ns = tor.clock.own_ns()
        tor.clock.peer.observe(own_ns, own_ns, own_ns, own_ns)
    await net.stop("edge0")
    clock = SharedClock()
    behind.append(clock)
    monkeypatch.setattr(switch_module, "SharedClock", lambda: clock)
    await net.stop("agg")
    await net.start("edge0")
    assert tor.clock.now_ns() < tor.clock.own_ns() - 1800 * 10**9
