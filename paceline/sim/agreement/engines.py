"""How far the array engine agrees with the reference: the mean JCT of the same jobs in both, over seeds.

    ratio = mean over seeds and jobs of the JCT in the array engine  ÷  the same in the reference

Of several short runs rather than a long one: what the engines do differently shows from the first meetings on, and one
seed may fall into another rhythm than the next. Single runs differ by more than their mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paceline.flowcore.model.scenario import Scenario
from paceline.sim.array.engine import run_scenario
from paceline.sim.jobs import TrainingJob
from paceline.sim.reference.engine import Simulation

AGREE = 0.01


@dataclass(frozen=True, slots=True)
class Agreement:
    scenario: str
    policy: str
    seeds: int
    iterations: int
    reference_jct_s: float
    array_jct_s: float

    @property
    def ratio(self) -> float:
        return self.array_jct_s / self.reference_jct_s

    @property
    def holds(self) -> bool:
        return abs(self.ratio - 1.0) <= AGREE


def compared(scenario: Scenario, policy: str, seeds: Sequence[int], iterations: int) -> Agreement:
    short = shortened(scenario, iterations)
    reference_s = fmean(mean_jct_s(in_reference(short, policy, seed)) for seed in seeds)
    array_s = fmean(mean_jct_s(run_scenario(short, policy, seed)[1]) for seed in seeds)
    return Agreement(scenario.name, policy, len(seeds), iterations, reference_s, array_s)


def shortened(scenario: Scenario, iterations: int, larger: float = 0.0) -> Scenario:
    """So many iterations of each job; models `larger` by that part."""
    jobs = (replace(job, iterations=iterations, model_mb=job.model_mb * (1.0 + larger)) for job in scenario.jobs)
    return replace(scenario, jobs=tuple(jobs), duration_s=None)


def in_reference(scenario: Scenario, policy: str, seed: int) -> list[TrainingJob]:
    simulation = Simulation(scenario, policy, seed)
    simulation.run()
    return list(simulation.jobs.values())


def mean_jct_s(jobs: Sequence[TrainingJob]) -> float:
    return fmean(job.iteration_ends_ns[-1] / 1e9 - job.spec.start_s for job in jobs)
