"""Dividing one group's links: turns and ceilings, and what changes on links shared with cross traffic."""

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.arbiters import Contender, max_min_shares, strict_priority
from paceline.flowcore.detect.cross_traffic import SharedLinks
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.policy.paceline import arbitrate
from paceline.flowcore.switch.division import LEAST_BPS, Division, contender, divide

GBPS = 1e9
LINKS = {"h0->sw": GBPS, "h1->sw": GBPS, "h2->sw": 2 * GBPS, "sw->h0": GBPS, "sw->h1": GBPS / 2, "sw->h2": GBPS}
HOSTS = ["h0", "h1", "h2"]

Claims = dict[str, list[Claim]]


def claim(job: str, source: str, target: str, urgency: float = 1.0, beyond: tuple[str, ...] = ()) -> Claim:
    flow = FlowId(job, source, target, Role.RING)
    return Claim(flow, (f"{source}->sw", f"sw->{target}", *beyond), 25e6, Bid(urgency, 1e8, 1e8), 0.0, 0.0, (), ())


def of_jobs(*claims: Claim) -> Claims:
    claims_of: Claims = {}
    for one in claims:
        claims_of.setdefault(one.flow.job, []).append(one)
    return claims_of


def traffic_on(links: Iterable[str], senders_part: float = 1.0) -> SharedLinks:
    """Of no job; `senders_part` of the links is left to those whose turn it is."""
    return SharedLinks(frozenset(links), dict.fromkeys(links, senders_part))


def divided(claims_of: Claims, shared: frozenset[str] = frozenset()) -> Division:
    members = [contender(job, claims) for job, claims in claims_of.items()]
    return divide(members, claims_of, LINKS, arbitrate, traffic_on(shared))


def loads_of(claims_of: Claims, division: Division) -> dict[str, float]:
    """As parts of each link's capacity."""
    load = dict.fromkeys(LINKS, 0.0)
    for claims in claims_of.values():
        for one in claims:
            for link in one.path:
                if link in load:
                    load[link] += division.shares[one.flow].share_bps / LINKS[link]
    return load


@st.composite
def groups(draw: st.DrawFn) -> Claims:
    """Some jobs with flows between different hosts, a few of which leave over links that are not known here."""
    claims = {}
    for job in range(draw(st.integers(1, 6))):
        urgency = draw(st.floats(0.1, 9.0))
        for _ in range(draw(st.integers(1, 3))):
            source, target = draw(st.permutations(HOSTS))[:2]
            one = claim(f"job{job}", source, target, urgency, draw(st.sampled_from([(), ("far",)])))
            claims[one.flow] = one
    return of_jobs(*claims.values())


some_links = st.frozensets(st.sampled_from(sorted(LINKS)))


@given(groups(), some_links)
def test_the_shares_on_a_link_stay_within_its_capacity(claims_of: Claims, shared: frozenset[str]) -> None:
    division = divided(claims_of, shared)
    assert set(division.shares) == {one.flow for claims in claims_of.values() for one in claims}
    assert max(loads_of(claims_of, division).values()) <= 1 + 1e-9
    assert division.peak_ratio <= 1 + 1e-9
    for share in division.shares.values():
        assert 0.0 <= share.share_bps <= share.ceiling_bps * (1 + 1e-9)


@given(groups(), st.floats(0.0, 2.0))
def test_the_peak_shows_an_arbiter_that_gives_too_much(claims_of: Claims, part: float) -> None:
    """Of what each job would have with the links to itself, whatever the other jobs have."""

    def arbiter(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
        return [part * one.alone_bps(capacity_bps) for one in contenders]

    members = [contender(job, claims) for job, claims in claims_of.items()]
    division = divide(members, claims_of, LINKS, arbiter, SharedLinks())
    assert division.peak_ratio == pytest.approx(max(loads_of(claims_of, division).values()))


@given(groups(), some_links)
def test_beside_cross_traffic_a_job_has_its_max_min_share_and_borrows_to_its_narrowest_link(
    claims_of: Claims, shared: frozenset[str]
) -> None:
    division = divided(claims_of, shared)
    known = [
        contender(job, [one._replace(path=one.path[:2]) for one in claims])  # without the links that are not known
        for job, claims in claims_of.items()
    ]
    for member, fair_bps in zip(known, max_min_shares(known, LINKS), strict=True):
        if shared.isdisjoint(member.flows_on):
            continue
        for one in claims_of[member.job]:
            share = division.shares[one.flow]
            assert share.share_bps == pytest.approx(fair_bps)
            assert share.ceiling_bps == min(LINKS[link] for link in one.path if link in LINKS)


def test_beside_cross_traffic_a_heavier_job_has_more() -> None:
    claims_of = of_jobs(claim("a", "h0", "h2")._replace(weight=3.0), claim("b", "h0", "h2"))
    division = divided(claims_of, frozenset({"h0->sw"}))
    heavy, light = (division.shares[claims_of[job][0].flow].share_bps for job in ("a", "b"))
    assert heavy == pytest.approx(3 * light)


def test_jobs_that_meet_no_cross_traffic_take_turns_in_what_is_left() -> None:
    """a crosses a shared link; b and c meet a on the way to h2, and each other."""
    claims_of = of_jobs(claim("a", "h0", "h2"), claim("b", "h1", "h2", 9.0), claim("c", "h2", "h1"))
    claims_of["c"].append(claim("c", "h1", "h2"))
    division = divided(claims_of, frozenset({"h0->sw"}))
    rates = {flow.job: share.share_bps for flow, share in division.shares.items()}
    assert rates == pytest.approx({"a": GBPS / 3, "b": 2 * GBPS / 3, "c": 0.0})


def test_without_cross_traffic_one_job_has_the_link() -> None:
    division = divided(of_jobs(claim("a", "h0", "h2"), claim("b", "h1", "h2", 9.0)))
    shares = {flow.job: (share.share_bps, share.ceiling_bps) for flow, share in division.shares.items()}
    assert shares == {"a": (0.0, 0.0), "b": (GBPS, GBPS)}


@pytest.mark.parametrize(
    ("between", "shared"),
    [
        ([], []),  # a and b meet only on a link that is not known here
        ([claim("between", "h1", "h0"), claim("between", "h0", "h2")], ["h1->sw"]),  # ... or through a third job
    ],
)
def test_a_group_that_falls_apart_is_divided_in_parts(between: list[Claim], shared: list[str]) -> None:
    divisions: list[list[str]] = []

    def arbiter(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
        divisions.append([one.job for one in contenders])
        return strict_priority(contenders, capacity_bps)

    far = () if between else ("far",)
    claims_of = of_jobs(claim("a", "h0", "h1", beyond=far), claim("b", "h2", "h0", beyond=far), *between)
    members = [contender(job, claims) for job, claims in claims_of.items()]
    divide(members, claims_of, LINKS, arbiter, traffic_on(shared))
    assert sorted(divisions) == [["a"], ["b"]]


def test_a_contender_counts_its_flows_by_link_and_bids_as_its_most_urgent_host() -> None:
    member = contender("a", [claim("a", "h0", "h1", 1.0), claim("a", "h0", "h2", 5.0), claim("a", "h1", "h2", 3.0)])
    assert member.flows_on == {"h0->sw": 2, "sw->h1": 1, "sw->h2": 2, "h1->sw": 1}
    assert member.bid.urgency == 5.0


def test_a_burst_that_cannot_be_stopped_keeps_its_turn() -> None:
    begun = claim("a", "h0", "h2", urgency=0.5)._replace(unstoppable=True)
    urgent, elsewhere = claim("b", "h0", "h1", urgency=9.0), claim("c", "h1", "h2", urgency=1.0)
    claims_of = of_jobs(begun, urgent, elsewhere)
    shares = divided(claims_of).shares
    assert shares[begun.flow].share_bps == GBPS, "sw->h2 has room for one of a and c"
    assert max(shares[one.flow].share_bps for one in (urgent, elsewhere)) <= LEAST_BPS
    assert divided(of_jobs(begun._replace(unstoppable=False), urgent, elsewhere)).shares[begun.flow].share_bps == 0.0
    members = [contender(job, claims) for job, claims in claims_of.items()]
    overdrawn = divide(members, claims_of, LINKS, arbitrate, traffic_on(()), frozenset("a"))
    assert overdrawn.shares[begun.flow].share_bps <= LEAST_BPS, "not for more than its part in the long run"


def test_nobody_waits_for_a_burst_that_hangs() -> None:
    """A job whose bytes do not move is overdrawn (ledger.py)."""
    hangs = claim("a", "h0", "h2")._replace(unstoppable=True, bid=Bid(1.0, 0.0, 1.0))
    goes = claim("b", "h0", "h2")._replace(unstoppable=True, bid=Bid(1.0, 0.0, 500.0))
    short = claim("c", "h0", "h2")._replace(bid=Bid(1.0, 1000.0, 100.0))
    claims_of = of_jobs(hangs, goes, short)
    members = [contender(job, claims) for job, claims in claims_of.items()]
    found = divide(members, claims_of, LINKS, arbitrate, traffic_on(()), frozenset("a"))
    assert found.shares[short.flow].share_bps == GBPS, "it begins beside the one that goes on"


@pytest.mark.parametrize(
    ("left_of_begun", "urgency", "begins"), [(210.0, 1.0, True), (190.0, 1.0, False), (160.0, 2.0, True)]
)
def test_a_short_burst_begins_beside_one_that_cannot_be_stopped(
    left_of_begun: float, urgency: float, begins: bool
) -> None:
    """Where what it loses by waiting is more than what both lose by sharing."""
    begun = claim("a", "h0", "h2")._replace(unstoppable=True, bid=Bid(1.0, 0.0, left_of_begun))
    short = claim("b", "h0", "h1")._replace(bid=Bid(urgency, 1000.0, 100.0))
    apart = claim("c", "h1", "h0")._replace(bid=Bid(0.1, 0.0, 1.0))
    shares = divided(of_jobs(begun, short, apart)).shares
    assert (shares[short.flow].share_bps > LEAST_BPS) is begins
    assert shares[apart.flow].share_bps == GBPS
