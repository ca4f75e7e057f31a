"""Hosts and switches over real streams: whole paths, refusals, and capacity under any interleaving."""

import asyncio
import random
from collections import defaultdict

import pytest

from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import Topology, clos, star, tree
from tests.switchd.fabric import Fabric, claim, flow, until

pytestmark = pytest.mark.slow

GBPS = 1e9
STAR = star(4, 1.0)
TREE = tree(2, 2, 2, (1.0, 1.5, 2.0))
CLOS = clos(2, 3, 2, (1.0, 1.0))


@pytest.mark.parametrize("topology", [STAR, TREE, CLOS], ids=["star", "tree", "clos"])
async def test_an_answer_merges_all_links_of_the_path(fabric, topology: Topology) -> None:
    """From h0 to the last host, whose neighbour loads the last link while h0 loads the first ones itself."""
    net: Fabric = await fabric(topology)
    *_, beside, far = topology.hosts
    h0, neighbour = await net.joined("h0"), await net.joined(beside)
    asked, near, here = flow("asked", "h0", far), flow("near", beside, far), flow("here", "h0", "h1")
    assert (await neighbour.ask(claim(topology, near, *[3e8] * 10))).grants[0].accepted
    assert (await h0.ask(claim(topology, here, *[2e8] * 10))).grants[0].accepted
    [grant] = (await h0.ask(claim(topology, asked))).grants
    loads: dict[str, float] = defaultdict(float)
    for other, rate_bps in ((near, 3e8), (here, 2e8)):
        for link in claim(topology, other).path:
            loads[link] += rate_bps
    links = claim(topology, asked).path
    left = [topology.links[link].capacity_bps - loads[link] for link in links]
    assert grant.available_bps[0] == pytest.approx(min(left))
    assert grant.load[0] == pytest.approx(sum(loads[link] / topology.links[link].capacity_bps for link in links))


async def test_what_a_parent_refuses_is_refused_to_the_host(fabric) -> None:
    net: Fabric = await fabric(TREE)
    h0, h5 = await net.joined("h0"), await net.joined("h5")
    near, far = flow("near", "h5", "h4"), flow("far", "h0", "h4")
    assert (await h5.ask(claim(TREE, near, *[8e8] * 10))).grants[0].accepted
    [refused] = (await h0.ask(claim(TREE, far, *[5e8] * 3))).grants  # only tor2, five switches away, knows
    assert not refused.accepted
    assert refused.available_bps[0] == pytest.approx(2e8)
    assert net.switch("tor0").plans_refused == 1
    [accepted] = (await h0.ask(claim(TREE, far, *[2e8] * 3))).grants
    assert accepted.accepted
    await h5.send(withdrawn=(near,))
    await until(lambda: near not in net.switch("tor2").agent.table)
    [fits] = (await h0.ask(claim(TREE, far, *[9e8] * 3))).grants
    assert fits.accepted


async def test_jobs_of_two_racks_share_one_link_by_one_decision(fabric) -> None:
    net: Fabric = await fabric(TREE, policy="fifo")
    h0, h2 = await net.joined("h0"), await net.joined("h2")
    mine, rival = flow("mine", "h0", "h4"), flow("rival", "h2", "h4")
    [alone] = (await h0.ask(claim(TREE, mine, urgency=-2e18))).grants  # fifo's bids are times before now
    assert alone.share_bps == GBPS
    [first] = (await h2.ask(claim(TREE, rival, urgency=-1e18))).grants
    assert first.share_bps == GBPS

    def last_share() -> float:
        return h0.feedbacks[-1].grants[0].share_bps

    await until(lambda: last_share() == 0.0)  # pushed across the tree
    await h2.send(withdrawn=(rival,))
    await until(lambda: last_share() == GBPS)


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
async def test_every_report_gets_one_answer(fabric, policy: str) -> None:
    net: Fabric = await fabric(TREE, policy=policy)
    hosts = [await net.joined(name) for name in TREE.hosts]
    flows = [flow(f"job{n % 3}", host.name, TREE.hosts[(n + 3) % 8]) for n, host in enumerate(hosts)]

    async def talk(number: int) -> None:
        for _ in range(5):
            await hosts[number].ask(claim(TREE, flows[number], 1e8))

    await asyncio.gather(*map(talk, range(8)))
    await asyncio.sleep(0.1)  # for answers that should not come
    for host in hosts:
        answers = [feedback.answers for feedback in host.feedbacks if feedback.answers >= 0]
        assert answers == [1, 2, 3, 4, 5]
    assert not any(net.switch(name).refused for name in TREE.switches)  # switches understand each other


# ---- Capacity ----


class Books:
    """What hosts were promised and have not replaced: kept apart from the switches' own tables.

    A plan is over when its flow sends another: a switch on the path may have taken that one in its place, even
    if the path as a whole refuses it.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._accepted: dict[FlowId, tuple[int, tuple[float, ...]]] = {}
        self.worst = 0.0

    def replaces(self, flows: list[FlowId]) -> None:
        for which in flows:
            self._accepted.pop(which, None)

    def note(self, plans: dict[FlowId, tuple[float, ...]], slot: int, answer: Feedback) -> None:
        self._accepted |= {grant.flow: (slot, plans[grant.flow]) for grant in answer.grants if grant.accepted}
        loads: dict[tuple[str, int], float] = defaultdict(float)
        for which, (first_slot, plan_bps) in self._accepted.items():
            for link in claim(self._topology, which).path:
                for offset, rate_bps in enumerate(plan_bps):
                    loads[link, first_slot + offset] += rate_bps
        for (link, _), load_bps in loads.items():
            self.worst = max(self.worst, load_bps / self._topology.links[link].capacity_bps)


@pytest.mark.parametrize("policy", ["mlcc", "paceline"])
@pytest.mark.parametrize("topology", [STAR, TREE, CLOS], ids=["star", "tree", "clos"])
async def test_accepted_plans_never_exceed_a_link(fabric, topology: Topology, policy: str) -> None:
    """All hosts at once, greedy and impatient, in whatever order their messages meet."""
    # Slots that are long enough for an answer on a busy machine.
    net: Fabric = await fabric(topology, policy=policy, slots=SlotsSpec(500.0, 10))
    hosts = {name: await net.joined(name) for name in topology.hosts}
    books, refusals = Books(topology), 0

    async def live(name: str, seed: int) -> None:
        nonlocal refusals
        draws, host, tor = random.Random(seed), hosts[name], topology.switch_of[name]
        targets = [target for target in topology.hosts if target != name]
        flows = [flow(f"job{seed}-{n}", name, draws.choice(targets)) for n in range(2)]
        for _ in range(12):
            plans = {which: tuple(draws.choice((0.0, 2e8, 6e8, 1e9)) for _ in range(10)) for which in flows}
            books.replaces(flows)
            slot = net.slot(tor)
            answer = await host.ask(*(claim(topology, which, *plan) for which, plan in plans.items()))
            refusals += sum(not grant.accepted for grant in answer.grants)
            if net.slot(tor) == slot:  # else the report may have named the next slot
                books.note(plans, slot, answer)
            await asyncio.sleep(draws.uniform(0.0, 0.02))

    await asyncio.gather(*(live(name, seed) for seed, name in enumerate(topology.hosts)))
    assert refusals > 0  # they did compete
    for name in topology.switches:
        agent = net.switch(name).agent
        assert agent.table.peak_ratio <= 1 + 1e-9
        assert agent.arbitration is None or agent.arbitration.peak_ratio <= 1 + 1e-9
    assert 0.5 < books.worst <= 1 + 1e-9
