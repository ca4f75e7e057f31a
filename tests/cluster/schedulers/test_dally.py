"""Dally's order, offers and preemption, step by step: two racks of two machines of four GPUs."""

from dataclasses import replace
from random import Random

import pytest

from paceline.cluster.delay import HOUR_S, NO_WAIT
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.schedulers import scheduler
from paceline.cluster.schedulers.dally import Dally, nw_sens
from paceline.cluster.schedulers.scheduling_round import Decision, decide
from paceline.cluster.state import ClusterState, Workers
from paceline.cluster.tiers import Tier, best_tier, find, tier_of

RACK_OF = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}


def cluster(**taken: Workers) -> ClusterState:
    state = ClusterState(4, RACK_OF, Random(1))
    for job, workers in taken.items():
        state.take(job, workers)
    return state


def ran(name: str, gpus: int, sensitivity: float, *, hours: float = 10.0, since_s: float = 0.0) -> Job:
    """A running job that computed for this share of its time."""
    run_s = hours * HOUR_S
    return Job(
        name, gpus, running_since_s=since_s, run_s=run_s, iterations=10**6,
        iterations_done=round(sensitivity * run_s), compute_s=1.0,
    )  # fmt: skip


def test_nw_sens_is_work_done_over_time_run() -> None:
    job = Job("j", 8, run_s=400.0, iterations=1000, iterations_done=100, compute_s=1.0)
    work = job.iterations_done / job.iterations  # W_compl
    norm = job.run_s / (job.iterations * job.compute_s)  # T_norm
    assert nw_sens(job) == pytest.approx(work / norm) == pytest.approx(0.25)
    assert nw_sens(Job("new", 8)) == 1.0  # it has lost nothing yet


def test_tiers_of_a_placement_and_the_best_there_can_be() -> None:
    assert tier_of({"a0": 4}, RACK_OF) is Tier.MACHINE
    assert tier_of({"a0": 1, "a1": 1}, RACK_OF) is Tier.RACK
    assert tier_of({"a0": 1, "b1": 1}, RACK_OF) is Tier.NETWORK
    assert [best_tier(gpus, 4, RACK_OF) for gpus in (4, 5, 8, 9)] == [
        Tier.MACHINE, Tier.RACK, Tier.RACK, Tier.NETWORK
    ]  # fmt: skip


def test_a_tier_is_filled_tightly() -> None:
    free = {"a0": 4, "a1": 2, "b0": 3, "b1": 1}
    assert find(Tier.MACHINE, 2, free, RACK_OF) == {"a1": 2}
    assert find(Tier.RACK, 4, free, RACK_OF) == {"b0": 3, "b1": 1}
    assert find(Tier.NETWORK, 8, free, RACK_OF) == {"a0": 4, "a1": 2, "b0": 2}
    assert find(Tier.RACK, 7, free, RACK_OF) is None


@pytest.mark.parametrize(
    ("variant", "waited_h", "expected"),
    [
        ("dally-manual", 0, None),
        ("dally-manual", 12, {"a0": 2, "a1": 1}),
        ("dally-nowait", 0, {"a0": 2, "a1": 1}),
        ("dally-full", 100, None),
        ("dally", 0, None),  # nothing learned yet: as the manual timers
    ],
)
def test_a_job_takes_a_rack_when_its_timer_says_so(variant: str, waited_h: float, expected: Workers | None) -> None:
    state = cluster(x={"a0": 2, "a1": 2, "b0": 3, "b1": 3})
    job = Job("j", 3, waiting_since_s=0.0)
    assert scheduler(variant).place(job, Offer(state, waited_h * HOUR_S)) == expected


def test_after_the_second_timer_anything_will_do_and_large_jobs_never_wait() -> None:
    state = cluster(x={"a0": 3, "a1": 3, "b0": 3, "b1": 3})
    manual = scheduler("dally-manual")
    assert manual.place(Job("j", 3), Offer(state, 23 * HOUR_S)) is None
    assert manual.place(Job("j", 3), Offer(state, 24 * HOUR_S)) == {"a0": 1, "a1": 1, "b0": 1}
    assert manual.place(Job("large", 9), Offer(cluster(), 0.0)) == {"a0": 4, "a1": 4, "b0": 1}


def test_what_jobs_waited_becomes_the_timer() -> None:
    dally = Dally()
    state = cluster(x={"a0": 2, "a1": 2, "b0": 3, "b1": 3})
    for waited_s in (100.0, 300.0):
        offer = Offer(state, waited_s)
        assert dally.place(Job("j", 2), offer) == {"a0": 2}  # to be asked is not to accept
        dally.accepted(Job("j", 2), {"a0": 2}, offer)
    state = cluster(x={"a0": 3, "a1": 3, "b0": 4, "b1": 4})
    tuned_s = dally.tuner.timers(2, 300.0).machine_s
    assert tuned_s == pytest.approx(200.0 + 2 * 2**0.5 * 100.0)
    assert dally.place(Job("j", 2), Offer(state, tuned_s - 1.0)) is None
    assert dally.place(Job("j", 2), Offer(state, tuned_s)) == {"a0": 1, "a1": 1}


def test_offers_go_to_the_most_slowed_down_first() -> None:
    waiting = [Job("new", 4), replace(ran("fast", 4, 0.9), running_since_s=float("inf"))]
    waiting.append(replace(ran("slow", 4, 0.2), running_since_s=float("inf")))
    state = cluster(x={"a0": 4, "b0": 4})
    found = decide(scheduler("dally-full"), 9 * HOUR_S, waiting, [], state)
    assert [name for name, _ in found.start] == ["slow", "fast"]


def test_a_slowed_down_job_stays_where_it_runs_unless_jobs_move() -> None:
    """If they do, it takes the machine of one that loses less, which goes where the other was in the same round."""
    state = cluster(slow={"a0": 1, "a1": 1, "b0": 2}, fast={"b1": 4}, x={"a0": 3, "a1": 3, "b0": 2})
    running = [ran("slow", 4, 0.1), ran("fast", 4, 0.9), ran("x", 8, 0.5, since_s=9.9 * HOUR_S)]
    assert decide(scheduler("dally-nowait"), 10 * HOUR_S, [], running, state) == Decision((), ())
    found = decide(Dally(NO_WAIT, moves=True), 10 * HOUR_S, [], running, state)
    assert found == Decision(("slow", "fast"), (("slow", {"b1": 4}), ("fast", {"b0": 2, "a0": 1, "a1": 1})))


def test_no_job_is_stopped_within_its_tenure_or_for_a_job_that_loses_less() -> None:
    state = cluster(fast={"b1": 4}, x={"a0": 4, "a1": 4, "b0": 4})
    nowait = scheduler("dally-nowait")
    slow = replace(ran("slow", 4, 0.05), running_since_s=float("inf"))
    held = [ran("fast", 4, 0.9, since_s=9.5 * HOUR_S), ran("x", 12, 0.1)]
    assert decide(nowait, 10 * HOUR_S, [slow], held, state).stop == ("x",)  # the tenure of x is over
    held = [ran("fast", 4, 0.9), ran("x", 12, 0.1)]
    assert decide(nowait, 10 * HOUR_S, [slow], held, state).stop == ("fast",)  # it loses less than x
    for newcomer in (Job("new", 4), replace(ran("faster", 4, 0.95), running_since_s=float("inf"))):
        assert decide(nowait, 10 * HOUR_S, [newcomer], held, state) == Decision((), ())
