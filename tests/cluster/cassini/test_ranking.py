"""Candidates: loops lose, the higher score wins, and drift is corrected by waiting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster.cassini.ranking import best
from paceline.flowcore.allocation.shifts.circle import Phase, Profile
from paceline.flowcore.allocation.shifts.drift import TOLERANCE, wait_ns
from paceline.flowcore.allocation.shifts.plan import Link, plan

HALF = Profile(100.0, (Phase(50.0, 45.0, 50.0),))
MOST = Profile(100.0, (Phase(20.0, 80.0, 50.0),))


def link(**profiles: Profile) -> Link:
    return Link(50.0, profiles)


def test_the_candidate_with_the_highest_mean_score_wins() -> None:
    crowded = {"l1": link(a=HALF, b=MOST), "l2": link(a=HALF)}
    fitting = {"l1": link(a=HALF, c=HALF), "l2": link(b=MOST)}
    place, found = best([crowded, fitting])
    assert place == 1
    assert found.score == pytest.approx(1.0)
    assert plan(crowded).score < 1.0
    assert found.shifts_ms.keys() == {"a", "c"}  # a job that shares no link is not moved


def test_a_mean_does_not_say_over_how_many_links() -> None:
    some = Profile(100.0, (Phase(40.0, 60.0, 50.0),))
    many = {f"l{number}": link(**{f"a{number}": some, f"b{number}": some}) for number in range(3)}
    one = {"l1": link(a1=HALF, b1=MOST)}
    assert best([many, one])[0] == 0
    assert best([many, one], by_sum=True)[0] == 1


def test_a_candidate_with_a_loop_loses_to_a_worse_one_without() -> None:
    loop = {"l1": link(a=HALF, b=HALF), "l2": link(b=HALF, c=HALF), "l3": link(c=HALF, a=HALF)}
    worse = {"l1": link(a=HALF, b=MOST, c=HALF)}
    assert best([loop, worse])[0] == 1
    _, found = best([loop])
    assert found.loop and not found.shifts_ms


def test_no_jobs_share_a_link() -> None:
    assert plan({"l1": link(a=HALF), "l2": link(b=MOST)}).score == 1.0


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(10**6, 10**10))
def test_after_its_wait_a_communication_is_due(now_ns: int, anchor_ns: int, iteration_ns: int) -> None:
    waited_ns = wait_ns(now_ns, anchor_ns, iteration_ns)
    assert 0 <= waited_ns < iteration_ns
    assert wait_ns(now_ns + waited_ns, anchor_ns, iteration_ns) == 0
    off_ns = (now_ns + waited_ns - anchor_ns) % iteration_ns
    assert min(off_ns, iteration_ns - off_ns) <= TOLERANCE * iteration_ns
