"""cassini run by the agents: like jobs take turns, on one switch and across switches, as in the array engine."""

import pytest

from paceline.flowcore.model.scenario import Scenario, parse_scenario
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import alone_iterations_s, job_result, run

STAR = 'kind = "star"\nhosts = 3\nlink_gbps = 10.0'
TREE = 'kind = "tree"\nservers_per_tor = 2\ntors_per_edge = 2\nedges = 1\nlink_gbps = [10.0, 10.0, 10.0]'


def scenario(topology: str, *jobs: str) -> Scenario:
    head = f'version = 1\nname = "pair"\nduration_s = 10.0\n[topology]\n{topology}\n'
    return parse_scenario(head + "".join(jobs), "pair.toml")


def ring(name: str, *workers: str, compute_s: float = 0.2, more: str = "") -> str:
    """It sends for 100 ms, if it has two workers."""
    return (
        f'[[job]]\nname = "{name}"\npattern = "allreduce"\nworkers = {list(workers)}\nmodel_mb = 125.0\n'
        f"compute_s = {compute_s}\njitter = 0.0\n{more}\n"
    ).replace("'", '"')


def servers(name: str) -> str:
    return (
        f'[[job]]\nname = "{name}"\npattern = "ps"\nworkers = ["h0", "h1"]\nservers = ["h2"]\nmodel_mb = 40.0\n'
        "compute_s = 0.2\njitter = 0.0\n"
    )


def slowdowns(pair: Scenario, policy: str) -> list[float]:
    """In the agents."""
    alone_s = alone_iterations_s(pair, 1)
    simulation = Simulation(pair, policy, 1)
    simulation.run()
    return [job_result(job, alone_s[name], simulation.now_ns).slowdown for name, job in simulation.jobs.items()]


PAIRS = {
    "one switch": scenario(STAR, ring("a", "h0", "h1"), ring("b", "h0", "h1")),
    "decided by the switch above": scenario(TREE, ring("a", "h0", "h2"), ring("b", "h0", "h2")),
    # The ToR knows when the other job computes: it leaves both to the switch above at all times.
    "one of them within a rack": scenario(TREE, ring("a", "h0", "h2"), ring("b", "h0", "h1")),
    "through a server": scenario(STAR, servers("a"), servers("b")),
    "overlapping": scenario(STAR, *(ring(name, "h0", "h1", more="overlap = 0.5") for name in "ab")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_like_jobs_take_turns(name: str) -> None:
    assert min(slowdowns(PAIRS[name], "fair")) > 1.2
    assert max(slowdowns(PAIRS[name], "cassini")) < 1.06


def test_as_in_the_array_engine() -> None:
    pair = PAIRS["one switch"]
    own = [job.slowdown for job in run(pair, "cassini", 1).jobs]
    assert slowdowns(pair, "cassini") == pytest.approx(own, abs=0.01)


def test_a_job_alone_is_not_held() -> None:
    assert slowdowns(scenario(STAR, ring("a", "h0", "h1")), "cassini") == pytest.approx([1.0], abs=1e-4)


def test_hosts_without_a_switch_hold_nothing() -> None:
    pair = PAIRS["one switch"]
    alone_s = alone_iterations_s(pair, 1)
    simulation = Simulation(pair, "cassini", 1, local=True)
    simulation.run()
    found = [job_result(job, alone_s[name], simulation.now_ns).slowdown for name, job in simulation.jobs.items()]
    assert found == pytest.approx(slowdowns(pair, "fair"), abs=0.01)
