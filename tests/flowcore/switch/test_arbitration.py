"""Which groups a switch divides, which it escalates, and what it recalls: every case of a reallocation."""

from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.policy.paceline import arbitrate
from paceline.flowcore.switch.arbitration import Arbitration
from paceline.flowcore.switch.ledger import WATCHED_SLOTS, Ledger
from paceline.flowcore.switch.load_table import ENTRY_SLOTS

GBPS = 1e9
SCOPE = {"h0->tor": GBPS, "tor->h1": GBPS}
TABLE = SCOPE | {"tor->agg": GBPS}
NEAR = ("h0->tor", "tor->h1")
FAR = ("h0->tor", "tor->agg", "agg->h9")


def flow(job: str) -> FlowId:
    return FlowId(job, "h0", "h1", Role.RING)


def claim(job: str, path: tuple[str, ...] = NEAR, urgency: float = 1.0) -> Claim:
    return Claim(flow(job), path, 25e6, Bid(urgency, 1e8, 1e8), 0.0, 0.0, (), ())


def arbitration_of(*claims: Claim) -> Arbitration:
    made = Arbitration(SCOPE, arbitrate, TABLE)
    made.put(claims, 0, 0)
    return made


def test_a_group_within_the_scope_is_divided_here() -> None:
    arbitration = arbitration_of(claim("a", urgency=9.0), claim("b"))
    result = arbitration.reallocate(0)
    assert result.changed == {flow("a"), flow("b")}
    assert result.escalate == () and result.recall == ()
    assert [arbitration.shares[flow(job)].share_bps for job in "ab"] == [GBPS, 0.0]


def test_only_what_changed_is_told() -> None:
    arbitration = arbitration_of(claim("a", urgency=9.0), claim("b"))
    arbitration.reallocate(0)
    assert arbitration.reallocate(0).changed == frozenset()
    arbitration.remove([flow("a")])
    assert arbitration.reallocate(0).changed == {flow("b")}


def test_a_group_that_reaches_beyond_is_escalated_whole() -> None:
    arbitration = arbitration_of(claim("a"), claim("b", FAR))
    result = arbitration.reallocate(0)
    assert {one.flow.job for one in result.escalate} == {"a", "b"}
    assert result.changed == frozenset() and arbitration.shares == {}


def test_old_shares_hold_until_the_parent_has_decided() -> None:
    arbitration = arbitration_of(claim("a"))
    arbitration.reallocate(0)
    arbitration.put([claim("b", FAR)], 0, 0)
    assert arbitration.reallocate(0).changed == frozenset()
    assert arbitration.shares.keys() == {flow("a")}
    decided = [Share(flow("a"), 0.0, 0.0), Share(flow("b"), GBPS, GBPS)]
    assert arbitration.decided_above(decided) == {flow("a"), flow("b")}
    assert arbitration.decided_above(decided) == frozenset()


def test_the_parent_decides_only_about_what_it_was_asked() -> None:
    arbitration = arbitration_of(claim("a"))
    arbitration.reallocate(0)
    assert arbitration.decided_above([Share(flow("a"), 0.0, 0.0)]) == frozenset()


def test_without_a_parent_the_links_it_knows_are_divided() -> None:
    arbitration = arbitration_of(claim("a", FAR, urgency=9.0), claim("b", FAR))
    result = arbitration.reallocate(0, alone=True)
    assert result.changed == {flow("a"), flow("b")} and len(result.escalate) == 2
    assert [arbitration.shares[flow(job)].share_bps for job in "ab"] == [GBPS, 0.0]


def test_a_parent_that_is_back_decides_about_everything_anew() -> None:
    arbitration = arbitration_of(claim("a", FAR))
    arbitration.reallocate(0, alone=True)
    result = arbitration.reallocate(0)
    assert result.recall == (flow("a"),) and len(result.escalate) == 1


def test_what_is_divided_here_again_is_recalled() -> None:
    arbitration = arbitration_of(claim("a"), claim("b", FAR))
    arbitration.reallocate(0)
    arbitration.remove([flow("b")])
    assert set(arbitration.reallocate(0).recall) == {flow("a"), flow("b")}
    assert arbitration.reallocate(0).recall == ()


def test_a_flow_that_left_and_came_back_is_a_new_claim_to_the_parent() -> None:
    arbitration = arbitration_of(claim("a", FAR))
    arbitration.reallocate(0)
    arbitration.remove([flow("a")])
    arbitration.put([claim("a", FAR)], 1, 0)
    result = arbitration.reallocate(0)
    assert result.recall == (flow("a"),) and len(result.escalate) == 1


def test_a_flow_that_passes_takes_the_jobs_it_meets_along() -> None:
    arbitration = arbitration_of(claim("a"))
    assert arbitration.passes(flow("guest"), ("agg->tor", "tor->h1"))
    assert not arbitration.passes(flow("guest"), ("agg->tor", "tor->h1")), "known already"
    assert [one.flow.job for one in arbitration.reallocate(0).escalate] == ["a"]
    assert arbitration.passed(flow("guest"))
    assert arbitration.reallocate(0).recall == (flow("a"),)


def test_a_claim_that_is_not_renewed_is_dropped() -> None:
    arbitration = arbitration_of(claim("a"), claim("b"))
    arbitration.put([claim("b")], 1, 0)
    assert not arbitration.expire(ENTRY_SLOTS)
    assert arbitration.expire(ENTRY_SLOTS + 1)
    assert arbitration.reallocate(0).changed == {flow("b")}


def test_what_a_child_sent_up_is_forgotten_with_the_child() -> None:
    arbitration = Arbitration(SCOPE, arbitrate, TABLE)
    arbitration.put([claim("a")], 0, 0, child="tor0")
    assert arbitration.child_of == {flow("a"): "tor0"}
    assert arbitration.remove_children({"tor1"}) is False
    assert arbitration.remove_children({"tor0"}) is True
    assert arbitration.empty and arbitration.child_of == {}


def test_a_flow_that_never_moves_does_not_count_among_its_jobs() -> None:
    """A host names job a, which is another's, and a flow of it on a link where job b waits."""
    slot_ns, links = 10**8, {"l0": GBPS, "l1": GBPS}
    arbitration = Arbitration(links, arbitrate, links, ledger=Ledger(slot_ns))
    forged = Claim(FlowId("a", "h7", "h8", Role.RING), ("l1",), 25e6, Bid(5.0, 1e8, 1e8), 0.0, 0.0, (), ())
    waited = []
    for slot in range(3 * WATCHED_SLOTS):
        real = forged._replace(flow=flow("a"), path=("l0",), sent_bytes=slot * 1e6)
        other = forged._replace(flow=flow("b"), bid=Bid(0.1, 1e8, 1e8), sent_bytes=sum(not w for w in waited) * 1e6)
        arbitration.put([real, forged, other], slot, slot * slot_ns)
        arbitration.reallocate(slot * slot_ns)
        assert arbitration.shares[real.flow].share_bps == GBPS
        waited.append(arbitration.shares[other.flow].share_bps == 0.0)
        assert arbitration.shares[forged.flow].share_bps == (GBPS if waited[-1] else 0.0)
    assert waited[: WATCHED_SLOTS + 2].count(True) == WATCHED_SLOTS + 1 and not any(waited[WATCHED_SLOTS + 1 :])


def test_of_two_like_bursts_the_first_ends_first_though_hosts_report_one_after_the_other() -> None:
    """Half a slot apart: whichever was heard of last looks the shorter one, if the switch does not reckon what the
    other was given since. It then takes the turn over, at every report, and both end late."""
    slot_ns, left_ns = 60_000_000, {"a": 2e8, "b": 1.9e8}
    arbitration = Arbitration(SCOPE, arbitrate, TABLE, None, Ledger(slot_ns))
    served = ""
    for half in range(100):
        now_ns, reporting = half * slot_ns // 2, "ab"[half % 2]
        sent_bytes = 25e6 - left_ns[reporting] / 8  # of 1 Gbit/s
        fresh = claim(reporting)._replace(bid=Bid(1.0, 1e8, left_ns[reporting]), sent_bytes=sent_bytes)
        arbitration.put([fresh], half // 2, now_ns)
        arbitration.reallocate(now_ns)
        having = next(job for job in "ab" if (share := arbitration.shares.get(flow(job))) and share.share_bps)
        served += having
        left_ns[having] -= slot_ns / 2
        if left_ns[having] <= 0:
            arbitration.remove([flow(having)])
            break
    assert served == "a" * 7
