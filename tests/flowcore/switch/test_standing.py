"""On links with cross traffic, who sends stands for those that wait."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.cross_traffic import SharedLinks
from paceline.flowcore.messages.escalation import Share
from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.background import BACKGROUNDS, FAIR, FIRST, TRAINING_FIRST, YIELD
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.policy.paceline import arbitrate
from paceline.flowcore.switch.division import contender, divide
from paceline.flowcore.switch.standing import PLACE
from tests.flowcore.switch.test_division import GBPS, LINKS, Claims, claim, groups, of_jobs, some_links, traffic_on

PORT = frozenset({"sw->h2"})


def weighable(claims_of: Claims) -> Claims:
    return {job: [one._replace(weighable=True) for one in claims] for job, claims in claims_of.items()}


def shares(
    claims_of: Claims,
    shared: Iterable[str] | SharedLinks = PORT,
    background: str = FAIR,
    unmoved: frozenset[FlowId] = frozenset(),
) -> Mapping[FlowId, Share]:
    members = [contender(job, claims) for job, claims in claims_of.items()]
    found = shared if isinstance(shared, SharedLinks) else traffic_on(shared)
    return divide(members, claims_of, LINKS, arbitrate, found, frozenset(), unmoved, background).shares


def by_job(found: Mapping[FlowId, Share]) -> dict[str, tuple[float, float, float]]:
    return {flow.job: share[1:] for flow, share in found.items()}


def three() -> Claims:
    """On their way to h2: a and c from the same host, b, whose turn it is, from another."""
    return weighable(of_jobs(claim("a", "h0", "h2"), claim("b", "h1", "h2", 9.0), claim("c", "h0", "h2")))


def test_who_sends_stands_for_all_that_wait() -> None:
    stands_for = 1.0 + 2 * PLACE
    assert by_job(shares(three())) == {"a": (0.0, 0.0, 1.0), "b": (GBPS, GBPS, stands_for), "c": (0.0, 0.0, 1.0)}


def test_it_stands_on_all_its_links_for_those_that_wait_on_one() -> None:
    """Nobody else would: under TCP those that wait on the port would hold it up, on its host's link as well."""
    assert by_job(shares(three(), PORT | {"h1->sw"}))["b"] == (GBPS, GBPS, 1.0 + 2 * PLACE)


def on_one_host() -> Claims:
    return weighable(of_jobs(claim("a", "h0", "h2"), claim("b", "h0", "h2", 9.0), claim("c", "h0", "h2")))


def test_who_waits_on_the_same_host_does_not_borrow_what_cross_traffic_takes() -> None:
    """Beside three flows TCP would leave it a quarter."""
    beside = by_job(shares(on_one_host(), traffic_on(PORT, senders_part=0.75)))
    assert beside == {"a": (0.0, 0.0, 1.0), "b": (GBPS, GBPS, 1.0 + 2 * PLACE), "c": (0.0, 0.0, 1.0)}
    assert by_job(shares(on_one_host(), ()))["a"] == (0.0, GBPS, 1.0)


def test_but_it_borrows_what_a_sender_that_pauses_leaves_of_their_place() -> None:
    beside = by_job(shares(on_one_host(), traffic_on(PORT, senders_part=0.5)))
    assert [beside[job][1] for job in "abc"] == pytest.approx([GBPS / 8, GBPS, GBPS / 8])


def test_cross_traffic_that_may_come_back_finds_a_sender_that_counts_for_all() -> None:
    recent = by_job(shares(on_one_host(), SharedLinks(recent=dict.fromkeys(PORT, 0.5))))
    without = by_job(shares(on_one_host(), ()))
    assert recent == without | {"b": (GBPS, GBPS, 1.0 + 2 * PLACE)}
    assert by_job(shares(on_one_host(), SharedLinks(recent=dict.fromkeys(PORT, 0.5)), YIELD)) == without


@given(groups(), some_links, st.floats(0.0, 1.0))
def test_jobs_that_wait_leave_cross_traffic_its_place(
    claims_of: Claims, shared: frozenset[str], senders_part: float
) -> None:
    """With what the senders get there they stay below k/(k + 1)."""
    claims_of = weighable(claims_of)
    found = shares(claims_of, traffic_on(shared, senders_part))
    for link in shared:
        there = [one for claims in claims_of.values() for one in claims if link in one.path]
        waiting = [one for one in there if found[one.flow].share_bps <= 0.0]
        if len(waiting) < len(there):
            borrowed = sum(found[one.flow].ceiling_bps for one in waiting) / LINKS[link]
            assert borrowed <= max(0.0, len(there) / (len(there) + 1) - senders_part) + 1e-9


def test_a_flow_that_does_not_move_would_not_send_under_tcp_either() -> None:
    jobs = three()
    jobs["a"].append(claim("a", "h1", "h2")._replace(weighable=True))
    unmoved = frozenset({jobs["a"][1].flow})
    found = shares(jobs, traffic_on(PORT, senders_part=0.5), unmoved=unmoved)
    assert found[jobs["b"][0].flow].stands_for == 1.0 + 2 * PLACE
    assert found[jobs["a"][1].flow].ceiling_bps == 0.0, "no part of the place of those that wait is its"


def test_one_host_that_cannot_weigh_and_nobody_takes_turns() -> None:
    jobs = three()
    jobs["a"] = [one._replace(weighable=False) for one in jobs["a"]]
    assert [*by_job(shares(jobs)).values()] == [pytest.approx((GBPS / 3, GBPS, 1.0))] * 3
    assert shares(jobs, background=TRAINING_FIRST) == shares(jobs)


def test_an_operator_who_yields_has_no_turns_there() -> None:
    assert [*by_job(shares(three(), background=YIELD)).values()] == [pytest.approx((GBPS / 3, GBPS, 1.0))] * 3


@pytest.mark.parametrize("shared", [frozenset(), PORT])
def test_training_goes_first_wherever_there_is_cross_traffic(shared: frozenset[str]) -> None:
    """Also before it was noticed: beside a flow that goes first it would not be."""
    found = shares(three(), shared, TRAINING_FIRST)
    assert found == {
        flow: share._replace(stands_for=FIRST if flow.job == "b" else 1.0)
        for flow, share in shares(three(), frozenset()).items()
    }


@given(groups(), st.sampled_from(BACKGROUNDS))
def test_without_cross_traffic_nothing_changes_but_for_weights(claims_of: Claims, background: str) -> None:
    found = shares(weighable(claims_of), frozenset(), background)
    plain = {flow: share._replace(stands_for=1.0) for flow, share in found.items()}
    assert plain == shares(claims_of, frozenset(), YIELD)
    if background != TRAINING_FIRST:
        assert found == plain


@given(groups(), some_links)
def test_they_count_for_those_that_send_and_a_part_of_those_that_wait(
    claims_of: Claims, shared: frozenset[str]
) -> None:
    """Of those that wait on one link; and nobody for more than all that there are on one."""
    claims_of = weighable(claims_of)
    found = shares(claims_of, shared)
    claims: list[Claim] = [one for jobs in claims_of.values() for one in jobs]
    for link in shared:
        there = [one for one in claims if link in one.path]
        sending = [one for one in there if found[one.flow].share_bps > 0.0]
        most = max(sum(other in one.path for one in claims) for other in shared)
        assert all(1.0 <= found[one.flow].stands_for <= most + 1e-9 for one in there)
        if sending and all(shared.intersection(one.path) == {link} for one in sending):
            count = sum(found[one.flow].stands_for for one in sending)
            assert count == pytest.approx(len(sending) + PLACE * (len(there) - len(sending)))
