"""The array engine against the agents: how long the same jobs take, under every policy.

Compared is the mean JCT over jobs and seeds, of several short runs rather than a long one: what the engines do
differently shows from the first meetings on, and one seed may fall into another rhythm than the next. Single runs
differ by more than their mean (under `srpt` on mixed and `mcs` on the tree by 3 %).

mlcc across racks is chaos, not a rule that differs: plans are made to end with their slot and equal slots are filled in
order, so the last digit of a sum decides whether a flow reports once more, and which slot it takes. A test here shows
it in the agents alone. So mlcc is held there to the first meetings of many seeds: on the clos, three iterations of each
are the same to 0.01 %; on the tree ties come with the first. After that only the mean over many says anything:
`ratio(name, "mlcc", 20, tuple(range(1, 17)))` was 0.989 on the clos and 0.996 on the tree, single runs 0.87 to 1.05.
"""

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from paceline.flowcore.model.scenario import Scenario, parse_scenario
from paceline.flowcore.policy import POLICIES
from paceline.sim.array.engine import run_scenario
from paceline.sim.jobs import TrainingJob
from paceline.sim.reference.engine import Simulation

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[3] / "scenarios"
AGREE = 0.02
ITERATIONS, SEEDS = 6, (1, 2, 3, 4)
CHAOTIC = {("clos", "mlcc"): 2, ("tree", "mlcc"): 1}  # for how many iterations to look
MANY_SEEDS = tuple(range(1, 9))


def shortened(name: str, iterations: int, larger: float = 0.0) -> Scenario:
    path = SCENARIOS / f"{name}.toml"
    scenario = parse_scenario(path.read_text(), path.name)
    jobs = (replace(job, iterations=iterations, model_mb=job.model_mb * (1.0 + larger)) for job in scenario.jobs)
    return replace(scenario, jobs=tuple(jobs), duration_s=None)


def mean_jct_s(jobs: list[TrainingJob]) -> float:
    return fmean(job.iteration_ends_ns[-1] / 1e9 - job.spec.start_s for job in jobs)


def with_agents(scenario: Scenario, policy: str, seed: int) -> list[TrainingJob]:
    simulation = Simulation(scenario, policy, seed)
    simulation.run()
    return list(simulation.jobs.values())


def ratio(name: str, policy: str, iterations: int, seeds: tuple[int, ...]) -> float:
    """Mean JCT in the array engine, relative to the agents'."""
    scenario = shortened(name, iterations)
    expected_s = fmean(mean_jct_s(with_agents(scenario, policy, seed)) for seed in seeds)
    return fmean(mean_jct_s(run_scenario(scenario, policy, seed)[1]) for seed in seeds) / expected_s


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("name", ["two-jobs", "three-hosts", "mixed", "clos", "tree"])
def test_jobs_take_as_long_in_both_engines(name: str, policy: str) -> None:
    chaotic_after = CHAOTIC.get((name, policy))
    found = ratio(name, policy, chaotic_after or ITERATIONS, MANY_SEEDS if chaotic_after else SEEDS)
    assert found == pytest.approx(1.0, abs=AGREE)


def test_mlcc_across_racks_is_chaos_in_the_agents_alone() -> None:
    """Models larger by a few billionths. Should this ever fail, hold mlcc to what the others are held to."""
    times_s = [mean_jct_s(with_agents(shortened("clos", 20, larger), "mlcc", 1)) for larger in (0.0, 2e-9, 3e-9)]
    assert max(times_s) / min(times_s) - 1.0 > AGREE
