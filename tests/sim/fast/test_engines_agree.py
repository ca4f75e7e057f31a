"""The fast engine against the agents: how long the same jobs take, under every policy.

Compared is the mean JCT over jobs, at 40 iterations. Of 20, 40 and 80 that were tried, 20 is too short for mlcc: the
agents' own mean moves by 3 % there when the control latency moves by 1 %. Single jobs differ by more than the mean:
on stars by up to 5 % (srpt, the long ring of three-hosts).

On one switch every policy agrees within 2 %. Across racks not all do, and KNOWN_GAPS says which and by how much. For
srpt and mcs the agents' results are steady (within 0.9 % for 1 % of latency), so the gap is the fast engine's. For mlcc
the agents' own mean moves by 4 to 7 %, so nothing can be said either way.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from flowcore.policy import POLICIES
from flowcore.scenario import Scenario, parse_scenario
from sim.engine import Simulation
from sim.fast.engine import run_scenario
from sim.jobs import TrainingJob

SCENARIOS = Path(__file__).parents[3] / "scenarios"
ITERATIONS = 40
AGREE = 0.02


@cache
def shortened(name: str) -> Scenario:
    path = SCENARIOS / f"{name}.toml"
    scenario = parse_scenario(path.read_text(), path.name)
    jobs = tuple(replace(job, iterations=ITERATIONS) for job in scenario.jobs)
    return replace(scenario, jobs=jobs, duration_s=None)


def jcts_s(jobs: "list[TrainingJob]") -> list[float]:
    return [job.iteration_ends_ns[-1] / 1e9 - job.spec.start_s for job in jobs]


@cache
def ratio(name: str, policy: str) -> float:
    """Mean JCT in the fast engine, relative to the agents'."""
    scenario = shortened(name)
    reference = Simulation(scenario, policy, scenario.seed)
    reference.run()
    expected_s = fmean(jcts_s(list(reference.jobs.values())))
    return fmean(jcts_s(run_scenario(scenario, policy, scenario.seed))) / expected_s


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("name", ["two-jobs", "three-hosts", "mixed"])
def test_jobs_take_as_long_in_both_engines(name: str, policy: str) -> None:
    assert ratio(name, policy) == pytest.approx(1.0, abs=AGREE)


AGREE_ACROSS_RACKS = [
    (name, policy)
    for name in ("clos", "tree")
    for policy in ("fair", "fair-penalty", "fifo", "ccml", "paceline")
] + [("clos", "mcs"), ("tree", "srpt")]

# Mean JCT, fast ÷ agents − 1, as measured; the test holds them to no worse than this and a margin.
KNOWN_GAPS = {
    ("clos", "srpt"): 0.028,
    ("tree", "mcs"): -0.043,
    ("clos", "mlcc"): 0.067,
    ("tree", "mlcc"): -0.035,
}
MARGIN = 0.05


def test_every_policy_is_accounted_for() -> None:
    assert {*AGREE_ACROSS_RACKS, *KNOWN_GAPS} == {(name, policy) for name in ("clos", "tree") for policy in POLICIES}


@pytest.mark.parametrize(("name", "policy"), AGREE_ACROSS_RACKS)
def test_jobs_across_racks_take_as_long_in_both_engines(name: str, policy: str) -> None:
    assert ratio(name, policy) == pytest.approx(1.0, abs=AGREE)


@pytest.mark.parametrize(("name", "policy"), KNOWN_GAPS)
def test_known_gaps_do_not_grow(name: str, policy: str) -> None:
    assert abs(ratio(name, policy) - 1.0) <= abs(KNOWN_GAPS[name, policy]) + MARGIN
