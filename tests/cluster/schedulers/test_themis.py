"""Themis: who is farthest behind goes first, leases end, and of the network it knows racks alone."""

from random import Random

import pytest

from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers.scheduling_round import decide
from paceline.cluster.schedulers.themis import EPOCH_S, Themis, unfairness
from paceline.cluster.state import ClusterState

RACKS = {f"h{number}": f"rack{number // 2}" for number in range(8)}


def cluster() -> ClusterState:
    return ClusterState(1, RACKS, Random(1))


def job(name: str, gpus: int, **others: float) -> Job:
    return Job(name, gpus, iterations=100, compute_s=1.0, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "rho"),
    [({}, 1.5), ({"iterations_done": 50, "run_s": 100.0}, 1.5), ({"iterations_done": 50, "run_s": 50.0}, 1.0)],
)
def test_rho_counts_waiting_and_the_pace_so_far(facts: dict[str, float], rho: float) -> None:
    assert unfairness(job("a", 1, **facts), 50.0) == pytest.approx(rho)


def test_a_job_has_a_rack_to_itself_where_there_is_one_and_else_any_servers() -> None:
    chosen = [Themis().place(job("a", 2), Offer(cluster(), 0.0)) for _ in range(3)]
    assert all(len({RACKS[server] for server in workers or {}}) == 1 for workers in chosen)
    state = cluster()
    drawn = {tuple(Themis().place(job("b", 3), Offer(state, 0.0)) or ()) for _ in range(8)}
    assert len(drawn) > 1
    assert all(servers == tuple(sorted(servers)) for servers in drawn)  # its ring goes from rack to rack once


@pytest.mark.parametrize(("held_s", "stops"), [(EPOCH_S - 1.0, ()), (EPOCH_S, ("old",))])
def test_a_job_loses_its_gpus_to_one_that_is_farther_behind_when_its_lease_is_over(
    held_s: float, stops: tuple[str, ...]
) -> None:
    state = cluster()
    state.take("old", dict.fromkeys(RACKS, 1))
    old = job("old", 8, running_since_s=0.0, run_s=held_s, iterations_done=99)
    waits = job("new", 2, arrival_s=held_s - 400.0, waiting_since_s=held_s - 400.0)
    assert unfairness(waits, held_s) < unfairness(old, held_s)
    assert decide(Themis(), held_s, [waits], [old], state).stop == ()
    waits = job("new", 2, arrival_s=-600.0, waiting_since_s=-600.0)
    assert decide(Themis(), held_s, [waits], [old], state).stop == stops
