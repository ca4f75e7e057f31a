"""What a switch keeps of claims, and what it tells flows of each other: volumes, shares, refusals, and their end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Bid, Claim, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import Domain, domains
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.switch.claims import JOB_MEMORY_SLOTS, Claims
from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from tests.flowcore.switch.fabric import GBPS, HORIZON, STAR, flow

FIRST, SECOND = flow("r", "h0", "h1"), flow("r", "h1", "h2")  # the first feeds the second


def claim(
    which: FlowId,
    sent_bytes: float = 0.0,
    *plan_bps: float,
    size_bytes: float = 25e6,
    planned_bytes: float = 0.0,
    upstream: tuple[FlowId, ...] = (),
    downstream: tuple[FlowId, ...] = (),
) -> Claim:
    path = STAR.path(which.source, which.target, str(which))
    return Claim(which, path, size_bytes, Bid(1.0), sent_bytes, planned_bytes, upstream, downstream, plan_bps)


class Table(Claims):
    """Of the star's switch; `told` is the grant of a flow that has just claimed."""

    def __init__(self, domain: Domain | None = None) -> None:
        super().__init__(domain or domains(STAR)["sw"], HORIZON)

    def told(self, one: Claim, slot: int = 0, share: Share | None = None) -> Grant:
        self.take(Report(one.flow.source, 1, slot, (one,)), slot)
        [grant] = self.grants([one.flow], slot, None if share is None else {one.flow: share})
        return grant


# ---- Volumes ----


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e7)), min_size=1, max_size=3))
def test_the_least_upstream_and_the_greatest_downstream_volume_are_told(volumes: list[tuple[float, float]]) -> None:
    """F is what was sent and what is planned for this slot."""
    claims, asker = Table(), flow("r", "h3", "h0")
    fellows = [flow("r", f"h{number}", "h3") for number in range(len(volumes))]
    for fellow, (sent_bytes, planned_bytes) in zip(fellows, volumes, strict=True):
        claims.told(claim(fellow, sent_bytes, planned_bytes=planned_bytes))
    grant = claims.told(claim(asker, upstream=tuple(fellows), downstream=tuple(fellows)))
    known = [sum(volume) for volume in volumes]
    assert (grant.upstream_bytes, grant.downstream_bytes) == (min(known), max(known))


@given(st.floats(1e3, 1e9), st.floats(1e3, 1e9), st.floats(0, 1e4))
def test_volumes_are_told_in_the_askers_bytes(size_bytes: float, asker_bytes: float, iterations: float) -> None:
    """Hosts learn sizes by themselves; only iterations can be compared."""
    claims = Table()
    claims.told(claim(FIRST, iterations * size_bytes, size_bytes=size_bytes, downstream=(SECOND,)))
    grant = claims.told(claim(SECOND, size_bytes=asker_bytes, upstream=(FIRST,)))
    assert grant.upstream_bytes == pytest.approx(iterations * asker_bytes)


@pytest.mark.parametrize("size_bytes", [0.0, 1e-310, 0.5])
def test_a_size_that_is_none_makes_no_volume_that_is_none(size_bytes: float) -> None:
    """Divided by it, another host's volume was no number, and the answer with it no message."""
    claims = Table()
    claims.told(claim(FIRST, 0.0, size_bytes=size_bytes, downstream=(SECOND,)))
    claims.expire(ENTRY_SLOTS + 1)  # then its volume is without end
    claims.told(claim(FIRST, 0.0, size_bytes=size_bytes, downstream=(SECOND,)))
    for asker_bytes in (1e8, 0.0):
        grant = claims.told(claim(SECOND, size_bytes=asker_bytes, upstream=(FIRST,), downstream=(FIRST,)))
        assert grant.upstream_bytes == grant.downstream_bytes == 0.0


def test_a_flow_without_dependencies_is_held_back_by_none() -> None:
    grant = Table().told(claim(FIRST))
    assert (grant.upstream_bytes, grant.downstream_bytes) == (UNLIMITED, 0.0)


def test_of_an_upstream_flow_that_no_report_named_only_the_switch_knows_that_it_has_sent_nothing() -> None:
    """It would arrive at the ToR; a NIC's table never hears of it, and must not wait for it."""
    asks = claim(SECOND, upstream=(FIRST,))
    assert Table().told(asks).upstream_bytes == 0.0
    nic = Table(Domain.of_nic(STAR.links["h1->sw"]))
    assert nic.told(asks._replace(path=("h1->sw",))).upstream_bytes == UNLIMITED


def test_a_withdrawn_flow_has_its_last_volume() -> None:
    claims = Table()
    claims.told(claim(FIRST, 2e7))
    claims.withdraw(Withdrawal(FIRST, 2.5e7))
    assert FIRST not in claims and FIRST not in claims.table
    assert claims.told(claim(SECOND, upstream=(FIRST,))).upstream_bytes == 2.5e7


def test_a_withdrawal_of_an_unknown_job_leaves_nothing() -> None:
    claims = Table()
    claims.withdraw(Withdrawal(FIRST, 2.5e7))
    assert claims.empty and not claims.remembers("r")
    assert claims.told(claim(SECOND, upstream=(FIRST,))).upstream_bytes == 0.0


def test_no_flow_waits_for_a_silent_one() -> None:
    claims = Table()
    claims.told(claim(FIRST, 2e7, downstream=(SECOND,)))
    slot = ENTRY_SLOTS + 1
    assert claims.told(claim(SECOND, upstream=(FIRST,)), slot).upstream_bytes == 2e7
    assert claims.expire(slot) == [FIRST]
    assert claims.told(claim(SECOND, upstream=(FIRST,)), slot).upstream_bytes == UNLIMITED
    assert claims.told(claim(flow("r", "h3", "h0"), downstream=(FIRST,)), slot).downstream_bytes == 0.0
    claims.told(claim(FIRST, 2.1e7), slot)
    assert claims.told(claim(SECOND, upstream=(FIRST,)), slot).upstream_bytes == 2.1e7, "it is back"


# ---- Plans and shares ----


def test_a_refused_plan_stays_refused_until_one_fits() -> None:
    claims, rival = Table(), flow("x", "h3", "h1")  # both arrive at h1
    assert claims.told(claim(rival, 0.0, 0.8 * GBPS)).accepted
    assert not claims.told(claim(FIRST, 0.0, 0.5 * GBPS)).accepted
    assert not claims.told(claim(FIRST)).accepted, "a claim without a plan changes nothing"
    assert claims.told(claim(FIRST, 0.0, 0.1 * GBPS)).accepted
    assert claims.table.load_bps("sw->h1", 0) == pytest.approx(0.9 * GBPS)


def test_a_grant_carries_the_share_or_none() -> None:
    grant = Table().told(claim(FIRST), share=Share(FIRST, 3e8, 7e8))
    assert (grant.share_bps, grant.ceiling_bps) == (3e8, 7e8)
    grant = Table().told(claim(FIRST))
    assert (grant.share_bps, grant.ceiling_bps) == (0.0, 0.0)


def test_a_flow_that_nobody_decides_about_is_held_up_by_nothing() -> None:
    """It has no guarantee, and what its links leave: a parent may refuse its claim for ever."""
    claims = Table()
    claims.told(claim(FIRST))
    [grant] = claims.grants([FIRST], 0, {})
    assert (grant.share_bps, grant.ceiling_bps) == (0.0, GBPS)


def test_the_last_peer_that_reported_a_flow_is_told() -> None:
    claims = Table()
    for peer in ("tor1", "h0"):
        claims.take(Report(peer, 1, 0, (claim(FIRST),)), 0)
        assert claims.reporter(FIRST) == peer


# ---- The end of it ----


def test_a_jobs_demand_outlives_its_claims_but_not_for_ever() -> None:
    claims = Table()
    alone_ns = claims.told(claim(FIRST)).alone_ns
    claims.withdraw(Withdrawal(FIRST, 2.5e7))
    claims.expire(JOB_MEMORY_SLOTS)
    assert claims.remembers("r") and not claims.empty
    assert claims.told(claim(FIRST), JOB_MEMORY_SLOTS).alone_ns == alone_ns
    claims.expire(2 * JOB_MEMORY_SLOTS)
    assert FIRST not in claims and claims.remembers("r")
    claims.expire(2 * JOB_MEMORY_SLOTS + 1)
    assert claims.empty and not claims.remembers("r")
    assert claims.told(claim(SECOND, upstream=(FIRST,)), 2 * JOB_MEMORY_SLOTS + 1).upstream_bytes == 0.0
