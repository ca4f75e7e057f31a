"""A wrapper changes one thing of a scheduler and leaves the rest."""

from random import Random

import pytest

from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers import OWN, scheduler
from paceline.cluster.schedulers.scheduling_round import decide
from paceline.cluster.state import ClusterState


def cluster(gpus_per_server: int = 2) -> ClusterState:
    return ClusterState(gpus_per_server, {f"s{n}": f"r{n // 2}" for n in range(4)}, Random(1))


def test_the_shortest_job_is_first_whatever_came_first() -> None:
    waiting = [Job("long", 8, arrival_s=0.0, iterations=9, compute_s=1.0)]
    waiting.append(Job("short", 8, arrival_s=1.0, iterations=2, compute_s=1.0))
    for order, starts in (("arrival", "long"), ("srsf", "short")):
        ((name, _),) = decide(scheduler("first-fit", order=order), 2.0, waiting, [], cluster()).start
        assert name == starts


@pytest.mark.parametrize("name", OWN)
def test_the_candidate_that_interleaves_best_is_taken(name: str) -> None:
    """The last of those offered; what the scheduler would not do is not offered."""
    seen = []

    def last(job: Job, ways: list, placed: dict) -> int:
        seen.append((ways, dict(placed)))
        return len(ways) - 1

    state = cluster()
    state.take("there", {"s1": 1})
    chosen = scheduler(f"{name}+cassini", choose=last).place(Job("j", 2, model_mb=10.0), Offer(state, 0.0))
    ((ways, placed),) = seen
    assert placed == {"there": {"s1": 1}}
    assert chosen == ways[-1]
    assert all(sum(workers.values()) >= 2 for workers in ways)


def test_asking_for_candidates_teaches_dally_nothing() -> None:
    dally = scheduler("dally+cassini")
    waiting = [Job("j", 2, waiting_since_s=0.0)]
    decide(dally, 100.0, waiting, [], cluster())
    assert dally.inner.tuner.timers(2, 100.0).machine_s == 100.0
    assert sum(len(waits) for waits in dally.inner.tuner._waits.values()) == 1


@pytest.mark.parametrize("name", ["dally", "gandiva", "tiresias", "titan"])
def test_what_is_not_changed_is_the_inner_scheduler_s(name: str) -> None:
    plain, wrapped = scheduler(name), scheduler(f"{name}+cassini")
    job = Job("j", 4, running_since_s=0.0, run_s=7200.0, iterations=100, iterations_done=9, compute_s=1.0, model_mb=1.0)
    workers = {"s0": 1, "s1": 1, "s2": 1, "s3": 1}
    assert (wrapped.tenure_s, wrapped.backfill) == (plain.tenure_s, plain.backfill)
    assert wrapped.rank(job, 0.0) == plain.rank(job, 0.0)
    assert wrapped.move(job, workers, Offer(cluster(4), 0.0)) == plain.move(job, workers, Offer(cluster(4), 0.0))
    assert wrapped.arrange(job, workers) == plain.arrange(job, workers)
