"""What each lie of one job costs the other jobs, beside what TCP would give them.

    slower(lie) = mean over the other jobs of (iteration under `paceline` with the lie ÷ iteration under `fair`)

The first job of a scenario lies, on every host it runs on and for the whole run. The scenarios are links that are too
small for their jobs, where a turn is worth lying for, and random mixes (sim/mixes.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.sim.lies.simulation import LyingSimulation
from paceline.sim.lies.telling import Lie
from paceline.sim.mixes import random_mix
from paceline.sim.processes import each
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import mean_iteration_s

OURS, YARDSTICK = "paceline", "fair"
CROWDS = (2, 4)  # jobs on one link
NO_LIE = "no lie"


@dataclass(frozen=True, slots=True)
class Cost:
    scenario: str
    slower: Mapping[str, float]  # by lie; NO_LIE first


def crowd(jobs: int, duration_s: float) -> Scenario:
    """Jobs that communicate for most of the time, on one link."""
    specs = tuple(
        JobSpec(f"job{n}", Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.03, None, 0.03 * n, 0.02) for n in range(jobs)
    )
    return Scenario(f"{jobs} jobs on one link", 1, duration_s, SlotsSpec(), star(2, 1.0), specs, ())


def scenarios(mixes: int, seed: int, duration_s: float) -> list[Scenario]:
    crowds = [crowd(jobs, duration_s) for jobs in CROWDS]
    return crowds + [random_mix(number, seed, duration_s=duration_s) for number in range(mixes)]


def costs(wanted: list[Scenario], seed: int, processes: int) -> Iterator[Cost]:
    """In order, as they are done."""
    return each(partial(cost, seed=seed), wanted, processes)


def cost(scenario: Scenario, seed: int) -> Cost:
    liar = scenario.jobs[0].name
    fair_s = iterations_s(Simulation(scenario, YARDSTICK, seed), liar)

    def slower(simulation: Simulation) -> float:
        times_s = iterations_s(simulation, liar)
        return fmean(times_s[job] / fair_s[job] for job in fair_s)

    honest = {NO_LIE: slower(Simulation(scenario, OURS, seed))}
    lies = {lie.value: slower(LyingSimulation(scenario, OURS, seed, liar=liar, lie=lie)) for lie in Lie}
    return Cost(scenario.name, honest | lies)


def iterations_s(simulation: Simulation, liar: str) -> dict[str, float]:
    """The mean iteration of every job but the liar."""
    simulation.run()
    return {name: mean_iteration_s(job, simulation.now_ns) for name, job in simulation.jobs.items() if name != liar}
