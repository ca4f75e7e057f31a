"""The plan of faults: a function of the seed, with every kind in it, inside its time."""

from itertools import pairwise

import pytest

from bench.chaos.plan import KINDS, KindError, draw, kinds_named
from bench.chaos.run import PERFORM

HOSTS, SWITCHES, JOBS = ("h0", "h1", "h2"), ("sw",), ("a", "b", "c")


def plan(seed: int, duration_s: float = 600.0, kinds: tuple[str, ...] = tuple(KINDS)) -> object:
    return draw(seed, duration_s, kinds, HOSTS, SWITCHES, JOBS)


def test_the_seed_decides() -> None:
    assert plan(1) == plan(1) != plan(2)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_one_after_the_other_and_end_in_time(seed: int) -> None:
    faults = draw(seed, 120.0, tuple(KINDS), HOSTS, SWITCHES, JOBS)
    assert all(before.end_s <= after.at_s + 1e-3 for before, after in pairwise(faults))
    assert len(faults) > 8 and faults[-1].end_s <= 120.0
    assert [fault.number for fault in faults] == list(range(len(faults)))


def test_every_kind_comes_once_before_any_comes_again() -> None:
    faults = draw(5, 600.0, tuple(KINDS), HOSTS, SWITCHES, JOBS)
    assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)


def test_targets_fit_the_kinds() -> None:
    places = {"host": HOSTS, "switch": SWITCHES, "job": JOBS}
    for fault in draw(6, 600.0, tuple(KINDS), HOSTS, SWITCHES, JOBS):
        assert fault.target in places[KINDS[fault.kind].target]


def test_every_kind_can_be_performed() -> None:
    assert set(PERFORM) == set(KINDS)


def test_kinds_by_name() -> None:
    assert kinds_named(None) == tuple(KINDS)
    assert kinds_named("link, mtu,link") == ("link", "mtu")
    with pytest.raises(KindError, match="did you mean 'kill-hostd'"):
        kinds_named("kill-hosts")
