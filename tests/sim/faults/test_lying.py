"""No lie of a job takes the links from the others: beside what TCP would give them, they lose little."""

import pytest

from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES
from paceline.sim.faults.history import Lie
from paceline.sim.faults.lying import LyingSimulation
from paceline.sim.reference.engine import Simulation

pytestmark = pytest.mark.slow

DURATION_S = 60.0
# What a liar is ahead of an equal share for ever, and what it gains once. A burst of nothing is too short for a turn: a
# host that says so of one job lets it go first on its own NIC, which needs no lie.
MOST_LOST = dict.fromkeys(Lie, 1.25) | {Lie.NEARLY_DONE: 2.0}


def mix(jobs: int) -> Scenario:
    """More than their link can carry, so that a turn is worth lying for."""
    specs = tuple(
        JobSpec(f"job{n}", Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.03, None, 0.03 * n, 0.02) for n in range(jobs)
    )
    return Scenario("lies", 1, DURATION_S, SlotsSpec(), star(2, 1.0), specs, ())


def honest_iterations(simulation: Simulation) -> int:
    simulation.run()
    return min(len(job.iteration_ends_ns) for name, job in simulation.jobs.items() if name != "job0")


@pytest.mark.parametrize("jobs", [2, 4])
@pytest.mark.parametrize("lie", Lie)
def test_the_others_have_nearly_what_tcp_would_give_them(lie: Lie, jobs: int) -> None:
    fair = honest_iterations(Simulation(mix(jobs), "fair", 1))
    lied_to = honest_iterations(LyingSimulation(mix(jobs), "paceline", 1, liar="job0", lie=lie))
    assert MOST_LOST[lie] * lied_to >= fair


def test_without_a_ledger_they_have_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(POLICIES["paceline"], "keeps_ledger", False)
    fair = honest_iterations(Simulation(mix(2), "fair", 1))
    assert honest_iterations(LyingSimulation(mix(2), "paceline", 1, liar="job0", lie=Lie.URGENT)) < fair / 2
