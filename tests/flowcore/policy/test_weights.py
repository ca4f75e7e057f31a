"""Job weights: what counts more gets more, in both engines and by the switches' ledger, and no job starves."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.allocation.arbiters import Contender
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.model.weights import BEST_EFFORT, LEAST, MOST
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.policy.paceline import arbitrate
from paceline.flowcore.switch.observed_job import URGENCY_MARGIN, ObservedJob
from paceline.sim.array.engine import run_scenario
from paceline.sim.mixes import random_mix
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import mean_iteration_s
from tests.flowcore.paper_setup import ring, scenario

ALONE_S = 0.25  # 0.05 s of computing, 0.2 s of sending: two such jobs want 1.6 links


def slowdowns(engine: str, policy: str, *weights: float) -> list[float]:
    """Of equal jobs that meet on one link, one of each weight."""
    equal = [ring("h0", "h1", name=f"job{number}", compute_s=0.05) for number in range(len(weights))]
    jobs = [replace(job, weight=weight) for job, weight in zip(equal, weights, strict=True)]
    shared = scenario(jobs, duration_s=15.0)
    if engine == "array":
        simulation, trained = run_scenario(shared, policy, 1)
        return [mean_iteration_s(job, simulation.now_ns) / ALONE_S for job in trained]
    reference = Simulation(shared, policy, 1)
    reference.run()
    return [mean_iteration_s(job, reference.now_ns) / ALONE_S for job in reference.jobs.values()]


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_slowdowns_are_as_one_to_the_root_of_the_weights(engine: str) -> None:
    """On a link that is always wanted √ω₁·s₁ = √ω₂·s₂. Fifteen seconds are long enough
    for a ledger of equal shares to hold the heavier job back."""
    heavy, light = slowdowns(engine, "paceline", 4.0, 1.0)
    assert light / heavy == pytest.approx(math.sqrt(4.0), rel=0.1)
    assert heavy < 1.3


def test_only_the_ratio_of_weights_counts() -> None:
    assert slowdowns("array", "paceline", 1.0, 0.25) == pytest.approx(slowdowns("array", "paceline", 4.0, 1.0))


def test_best_effort_hardly_costs_the_other_job_anything() -> None:
    other, best_effort = slowdowns("array", "paceline", 1.0, BEST_EFFORT)
    assert other < 1.15
    assert best_effort < 4.0


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_heavy_jobs_that_are_slow_themselves_do_not_shut_out_a_light_one(engine: str) -> None:
    """Three jobs that want 2.4 links: were the bound on a bid to grow with the weight, the fourth would never send."""
    *heavy, light = slowdowns(engine, "paceline", MOST, MOST, MOST, LEAST)
    assert max(heavy) < 3.3
    assert light < 40.0


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from([LEAST, 0.3, 1.0, MOST]), min_size=6, max_size=6))
def test_no_job_starves(number: int, weights: list[float]) -> None:
    """Its iterations take at most √(MOST/LEAST) times as long as with equal weights."""
    mix = random_mix(number, 7, duration_s=15.0)
    weighted = replace(mix, jobs=tuple(replace(job, weight=w) for job, w in zip(mix.jobs, weights, strict=False)))
    (simulation, jobs), (_, equals) = run_scenario(weighted, "paceline", 1), run_scenario(mix, "paceline", 1)
    for job, equal in zip(jobs, equals, strict=True):
        longest_s = math.sqrt(MOST / LEAST) * mean_iteration_s(equal, simulation.now_ns)
        assert mean_iteration_s(job, simulation.now_ns) <= longest_s


@given(st.floats(LEAST, MOST), st.floats(1.0, 5.0), st.floats(0.01, 2.0), st.floats(0.01, 2.0))
def test_the_least_weighted_job_is_first_once_it_has_waited_long_enough(
    weight: float, slowdown: float, compute_s: float, exchange_s: float
) -> None:
    policy, waiting = POLICIES["paceline"](), JobProgress(0, LEAST)
    waiting.compute_ns, waiting.alone_comm_ns = compute_s * 1e9, exchange_s * 1e9
    waiting.compute_ended(round(compute_s * 1e9))
    rival = Contender("rival", Bid(weight**0.5 * slowdown, compute_s * 1e9, exchange_s * 1e9), {"link": 1})
    for iterations in range(1, 200):
        waiting.advance(round(iterations * (compute_s + exchange_s) * 1e9), 0.0)
        bid = policy.bid(JobState(waiting, 1.0, 0))
        if arbitrate([Contender("waits", bid, {"link": 1}), rival], {"link": 1e9})[0] > 0.0:
            return
    raise AssertionError("never")


@pytest.mark.parametrize(("name", "more"), [("paceline", 2.0), ("crux", 4.0)])
def test_a_job_of_four_times_the_weight_is_worth_more(name: str, more: float) -> None:
    bids = []
    for weight in (1.0, 4.0):
        progress = JobProgress(0, weight)
        progress.compute_ns, progress.alone_comm_ns = 3e8, 2e8
        bids.append(POLICIES[name]().bid(JobState(progress, 1.0, 0)))
    one, four = bids
    assert four == one._replace(urgency=more * one.urgency)


def test_a_bid_is_believed_as_far_as_the_weight_goes() -> None:
    bid = Bid(1000.0, 0.0, 0.0)
    assert ObservedJob().believed(bid).urgency == pytest.approx(URGENCY_MARGIN)
    assert ObservedJob().believed(bid, 4.0).urgency == pytest.approx(2.0 * URGENCY_MARGIN)
