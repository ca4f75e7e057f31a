"""A job that announces bytes and sends none stops no other: whichever it is, and whenever it hangs.

What is compared: the iterations of every other job beside the hung one, and without it. `paceline` only: the baselines
are as their papers have them. `scripts/test tests/sim/test_hung_jobs.py --mixes 200` takes ten minutes.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from paceline.flowcore.model.scenario import Scenario
from paceline.sim.mixes import random_mix
from paceline.sim.reference.engine import Simulation

DURATION_S = 20.0
KEPT = 0.9


def iterations(scenario: Scenario, hangs_s: Mapping[str, float] | None = None) -> dict[str, int]:
    simulation = Simulation(scenario, "paceline", 1, hangs_s=hangs_s)
    simulation.run()
    return {name: len(job.iteration_ends_ns) for name, job in simulation.jobs.items()}


@pytest.mark.slow
def test_every_other_job_goes_on_as_if_the_hung_one_were_not_there(mix_number: int) -> None:
    mix = random_mix(mix_number, seed=7, duration_s=DURATION_S)
    draws = random.Random(mix_number)
    hung, when_s = draws.choice(mix.jobs).name, draws.uniform(0.0, 5.0)
    without = iterations(replace(mix, jobs=tuple(job for job in mix.jobs if job.name != hung)))
    beside = iterations(mix, {hung: when_s})
    for name, count in without.items():
        # The iteration under way at the end is not counted, and a slow job has few.
        assert beside[name] + 1 >= KEPT * count, f"{name} beside {hung}, which hung at {when_s:.2f} s"
