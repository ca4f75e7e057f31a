"""A claim that is wrong costs itself: the rest of its report is heard, and the stream of its host goes on."""

import math
from collections.abc import Callable

import pytest

from paceline.flowcore.messages.reports import Report, Withdrawal
from paceline.flowcore.model.topology import star
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import REPORT
from switchd.config import DEFAULT_MAX_FLOWS
from tests.switchd.fabric import Fabric, Host, claim, flow

pytestmark = pytest.mark.slow

STAR = star(4, 1.0)
BAD, GOOD, LATER = flow("1/bad", "h1", "h2"), flow("2/good", "h1", "h3"), flow("3/later", "h1", "h0")
Spoil = Callable[[pb.Report], object]

CLAIMS: dict[str, tuple[Spoil, str]] = {
    "unknown target": (lambda report: report.claims.flow.__setitem__(0, "1/bad/ring/h1>h9"), "flow"),
    "a link as target": (lambda report: report.claims.flow.__setitem__(0, "1/bad/ring/h1>sw"), "flow"),
    "a flow to itself": (lambda report: report.claims.flow.__setitem__(0, "1/bad/ring/h1>h1"), "flow"),
    "NaN": (lambda report: report.claims.plan_bps.__setitem__(3, math.nan), "numbers"),
    "negative": (lambda report: report.claims.plan_bps.__setitem__(0, -1.0), "numbers"),
    "infinite": (lambda report: report.claims.sent_bytes.__setitem__(0, math.inf), "numbers"),
    "absurd": (lambda report: report.claims.plan_bps.__setitem__(9, 1e300), "numbers"),
    "absurd size": (lambda report: report.claims.size_bytes.__setitem__(0, 1.1e18), "numbers"),
    "more than one thing": (
        lambda report: (report.claims.size_bytes.__setitem__(0, -1.0), report.claims.urgency.__setitem__(0, math.nan)),
        "numbers",
    ),
    "another job's flow as feeder": (lambda report: report.claims.upstream.__setitem__(0, str(GOOD)), "flow"),
}


def wire(net: Fabric, number: int) -> pb.Report:
    own = claim(STAR, BAD, *[1e8] * 10)._replace(upstream=(flow("1/bad", "h3", "h1"),))
    return REPORT.to_wire(Report("h1", number, net.slot("sw"), (own, claim(STAR, GOOD, *[1e8] * 10))))


@pytest.mark.parametrize("which", CLAIMS)
async def test_the_rest_is_heard(fabric, which: str) -> None:
    spoil, reason = CLAIMS[which]
    net: Fabric = await fabric(STAR)
    host: Host = await net.joined("h1")
    bad = wire(net, 7)
    spoil(bad)
    await host.say(pb.HostMessage(report=bad))
    answer = await host.answer(7)
    assert [grant.flow for grant in answer.grants] == [GOOD] and answer.grants[0].accepted
    assert (await host.ask(claim(STAR, LATER))).grants and host.ended is None
    switch = net.switch("sw")
    assert switch.refused.keys() - {"clock"} == {reason} and BAD not in switch.agent.table


async def test_a_report_of_nothing_else_is_answered(fabric) -> None:
    """Or its host would take the switch for silent."""
    net: Fabric = await fabric(STAR)
    host: Host = await net.joined("h1")
    bad = wire(net, 7)
    bad.claims.size_bytes[:] = [1e19, 1e19]
    await host.say(pb.HostMessage(report=bad))
    assert (await host.answer(7)).grants == () and host.ended is None


async def test_more_flows_than_a_host_may_have(fabric) -> None:
    """Those it had stay, and so does room for them; another host notices nothing."""
    net: Fabric = await fabric(STAR)
    host: Host = await net.joined("h1")
    for start in range(0, DEFAULT_MAX_FLOWS, 64):
        await host.ask(*(claim(STAR, flow(f"1/job{start + n}", "h1", "h2")) for n in range(64)))
    known = flow("1/job3", "h1", "h2")
    answer = await host.ask(claim(STAR, BAD), claim(STAR, known))
    assert [grant.flow for grant in answer.grants] == [known] and host.ended is None
    assert net.switch("sw").refused["flows"] == 1
    other = await net.joined("h0")
    assert (await other.ask(claim(STAR, flow("x", "h0", "h2")))).grants


async def test_withdrawals_count_as_well(fabric) -> None:
    """A switch remembers how far a withdrawn flow came, for those that follow it."""
    net: Fabric = await fabric(STAR)
    host: Host = await net.joined("h1")
    await host.ask(claim(STAR, BAD))
    for start in (0, DEFAULT_MAX_FLOWS // 2):
        gone = tuple(Withdrawal(flow("1/bad", "h1", f"x{start + n}"), 1.0) for n in range(DEFAULT_MAX_FLOWS // 2))
        await host.say(pb.HostMessage(report=REPORT.to_wire(Report("h1", 9, net.slot("sw"), (), gone))))
    assert (await host.ask(claim(STAR, BAD))).grants and host.ended is None
    assert net.switch("sw").refused["flows"] == 1
    assert len(net.switch("sw").agent._claims._volume_bytes) <= DEFAULT_MAX_FLOWS
