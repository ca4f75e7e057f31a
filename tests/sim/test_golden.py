"""Golden scenarios: what every recorded policy makes of every shipped scenario, to four digits.

A difference here is a change of behaviour. If it is meant, look at it, say so in the commit, and record it:

    python -m pytest tests/sim/test_golden.py --refresh-golden

The same command records a new policy; until then it has nothing to be compared with and is left out.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from paceline.flowcore.model.scenario import Scenario, parse_scenario
from paceline.flowcore.policy import POLICIES
from paceline.sim.run import alone_iterations_s, run

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
DURATION_S = 10.0  # some twenty iterations of each job
LARGE = {"clos", "tree"}  # take a second or two each


@cache
def shortened(name: str) -> tuple[Scenario, dict[str, float]]:
    """The scenario, and its jobs alone."""
    path = ROOT / "scenarios" / f"{name}.toml"
    scenario = replace(parse_scenario(path.read_text(), path.name), duration_s=DURATION_S)
    return scenario, alone_iterations_s(scenario, scenario.seed)


def summary(name: str, policy: str) -> dict[str, object]:
    scenario, alone_s = shortened(name)
    result = run(scenario, policy, alone_s=alone_s)
    return {
        "mean_slowdown": round(result.mean_slowdown, 4),
        "jobs": {job.name: {"iterations": job.iterations, "slowdown": round(job.slowdown, 4)} for job in result.jobs},
    }


def recorded(name: str) -> dict[str, object]:
    """By policy."""
    path = GOLDEN / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "policy" in metafunc.fixturenames:
        anew = metafunc.config.getoption("--refresh-golden")
        policies = {name: sorted(POLICIES if anew else POLICIES.keys() & recorded(name).keys()) for name in SCENARIOS}
        cases = [
            pytest.param(name, policy, marks=pytest.mark.slow if name in LARGE and policy != "paceline" else ())
            for name in SCENARIOS
            for policy in policies[name]
        ]
        metafunc.parametrize(("name", "policy"), cases)


def test_every_scenario_has_the_same_policies() -> None:
    assert len(SCENARIOS) >= 4
    policies = recorded(SCENARIOS[0]).keys()
    assert policies <= POLICIES.keys()
    assert {"fair", "mlcc", "paceline"} <= policies
    assert all(recorded(name).keys() == policies for name in SCENARIOS)


def test_as_it_was(name: str, policy: str, refresh_golden: bool) -> None:
    found = summary(name, policy)
    if refresh_golden:
        GOLDEN.mkdir(exist_ok=True)
        golden = json.dumps(recorded(name) | {policy: found}, indent=2, sort_keys=True)
        (GOLDEN / f"{name}.json").write_text(golden + "\n")
    assert recorded(name)[policy] == found
