"""Both arbiters: no link above capacity, no job held back without a reason, independent jobs independent."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.arbiters import (
    Arbiter,
    Contender,
    by_group,
    max_weight_shares,
    most_urgent,
    most_urgent_many,
    strict_priority,
)
from paceline.flowcore.messages.reports import Bid

CAPACITY_BPS = {f"link{number}": bps for number, bps in enumerate([1e9, 1e9, 2e9, 5e8, 1e10, 1e9])}


def by_urgency(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    def one_group(members: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
        return max_weight_shares(members, capacity_bps, lambda bids: [bid.urgency for bid in bids])

    return by_group(one_group, contenders, capacity_bps)


both = pytest.mark.parametrize("arbiter", [strict_priority, by_urgency])


@st.composite
def groups(draw: st.DrawFn, most: int = 6, links: Sequence[str] = tuple(CAPACITY_BPS)) -> list[Contender]:
    count = draw(st.integers(1, most))
    urgencies = draw(st.lists(st.floats(0.1, 50.0), min_size=count, max_size=count, unique=True))
    return [
        Contender(
            f"job{number}",
            Bid(urgency, 0.0, 0.0),
            draw(st.dictionaries(st.sampled_from(links), st.integers(1, 3), min_size=1, max_size=4)),
        )
        for number, urgency in enumerate(urgencies)
    ]


def load_bps(contenders: Sequence[Contender], rates: Sequence[float], link: str) -> float:
    return sum(c.flows_on.get(link, 0) * rate for c, rate in zip(contenders, rates, strict=True))


@both
@given(contenders=groups())
def test_no_link_gets_more_than_its_capacity(arbiter: Arbiter, contenders: list[Contender]) -> None:
    rates = arbiter(contenders, CAPACITY_BPS)
    for link, capacity_bps in CAPACITY_BPS.items():
        assert load_bps(contenders, rates, link) <= capacity_bps * (1 + 1e-9)
    assert all(rate >= 0.0 for rate in rates)


@both
@given(contenders=groups())
def test_held_back_only_by_a_full_link(arbiter: Arbiter, contenders: list[Contender]) -> None:
    rates = arbiter(contenders, CAPACITY_BPS)
    loads = {link: load_bps(contenders, rates, link) for link in CAPACITY_BPS}
    full = {link for link, capacity_bps in CAPACITY_BPS.items() if loads[link] >= capacity_bps * (1 - 1e-7)}
    assert all(full & contender.flows_on.keys() for contender in contenders)


@both
@given(here=groups(3, ("link0", "link1", "link2")), there=groups(3, ("link3", "link4", "link5")))
def test_jobs_that_share_no_link_do_not_influence_each_other(
    arbiter: Arbiter, here: list[Contender], there: list[Contender]
) -> None:
    there = [Contender(f"other {c.job}", c.bid, c.flows_on) for c in there]
    mixed = [c for pair in zip(here, there, strict=False) for c in pair]
    mixed += here[len(there) :] + there[len(here) :]
    together = dict(zip((c.job for c in mixed), arbiter(mixed, CAPACITY_BPS), strict=True))
    apart = dict(zip((c.job for c in here), arbiter(here, CAPACITY_BPS), strict=True))
    apart |= zip((c.job for c in there), arbiter(there, CAPACITY_BPS), strict=True)
    assert together == apart  # to the last bit


@both
@given(contenders=groups(), shuffler=st.randoms(use_true_random=False))
def test_the_order_of_contenders_is_worth_nothing(
    arbiter: Arbiter, contenders: list[Contender], shuffler: object
) -> None:
    """Rates may differ between equally good packings, their worth may not."""
    moved = list(contenders)
    shuffler.shuffle(moved)  # type: ignore[attr-defined]
    worth = _worth(contenders, arbiter(contenders, CAPACITY_BPS))
    assert _worth(moved, arbiter(moved, CAPACITY_BPS)) == pytest.approx(worth, rel=1e-7)
    if arbiter is strict_priority:
        rates = dict(zip((c.job for c in contenders), arbiter(contenders, CAPACITY_BPS), strict=True))
        assert dict(zip((c.job for c in moved), arbiter(moved, CAPACITY_BPS), strict=True)) == rates


@both
@given(contenders=groups(), factor=st.sampled_from([1 / 1024, 0.5, 4.0, 1024.0]))
def test_the_scale_of_bids_is_worth_nothing(arbiter: Arbiter, contenders: list[Contender], factor: float) -> None:
    scaled = [Contender(c.job, Bid(factor * c.bid.urgency), c.flows_on) for c in contenders]
    worth = _worth(contenders, arbiter(contenders, CAPACITY_BPS))
    assert _worth(contenders, arbiter(scaled, CAPACITY_BPS)) == pytest.approx(worth, rel=1e-7)


def _worth(contenders: Sequence[Contender], rates: Sequence[float]) -> float:
    return sum(c.bid.urgency * rate / c.alone_bps(CAPACITY_BPS) for c, rate in zip(contenders, rates, strict=True))


def contender(job: str, urgency: float, *links: str, flows: int = 1) -> Contender:
    return Contender(job, Bid(urgency), dict.fromkeys(links, flows))


@both
def test_alone_a_job_gets_what_its_narrowest_link_carries(arbiter: Arbiter) -> None:
    assert arbiter([contender("a", 1.0, "link2", "link3")], CAPACITY_BPS) == [5e8]
    assert arbiter([contender("a", 1.0, "link2", flows=4)], CAPACITY_BPS) == [5e8]


@both
def test_without_contenders_no_link_is_given(arbiter: Arbiter) -> None:
    assert arbiter([], CAPACITY_BPS) == []


@both
def test_on_one_link_the_more_urgent_goes_first(arbiter: Arbiter) -> None:
    jobs = [contender("a", 1.0, "link0"), contender("b", 3.0, "link0", "link3"), contender("c", 2.0, "link0")]
    assert arbiter(jobs, CAPACITY_BPS) == pytest.approx([0.0, 5e8, 5e8])  # link3 holds b at half


def test_in_order_breaks_ties_by_name() -> None:
    jobs = [contender("b", 1.0, "link0"), contender("a", 1.0, "link0")]
    assert strict_priority(jobs, CAPACITY_BPS) == [0.0, 1e9]


def test_where_an_order_serves_one_the_packing_serves_three_halves() -> None:
    cycle = [contender("a", 3.0, "link0", "link1"), contender("b", 2.0, "link1", "link5")]
    cycle += [contender("c", 2.5, "link5", "link0")]
    assert sum(strict_priority(cycle, CAPACITY_BPS)) == pytest.approx(1e9)
    assert by_urgency(cycle, CAPACITY_BPS) == pytest.approx([5e8] * 3)


def test_two_rivals_against_one_on_both_links() -> None:
    jobs = [contender("long", 3.0, "link0", "link1")]
    jobs += [contender("x", 2.0, "link0"), contender("y", 2.0, "link1")]
    assert strict_priority(jobs, CAPACITY_BPS) == [1e9, 0.0, 0.0]
    assert by_urgency(jobs, CAPACITY_BPS) == pytest.approx([0.0, 1e9, 1e9])


few = st.sampled_from([0.0, 1.0, 2.5])


@given(st.lists(st.lists(st.builds(Bid, few, few, few), min_size=1, max_size=4), min_size=1, max_size=5))
def test_arrays_of_jobs_bid_as_one_does(bids_of: list[list[Bid]]) -> None:
    member = np.repeat(np.arange(len(bids_of)), [len(bids) for bids in bids_of])
    columns = [np.array(column) for column in zip(*(bid for bids in bids_of for bid in bids), strict=True)]
    assert most_urgent_many(columns, member) == [most_urgent(bids) for bids in bids_of]
