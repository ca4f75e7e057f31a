"""Golden scenarios: what every policy makes of every shipped scenario, to four digits.

A difference here is a change of behaviour. If it is meant, look at it, say so in the commit, and write it down:

    python -m pytest tests/sim/test_golden.py --refresh-golden
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


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 4


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("name", SCENARIOS)
def test_as_it_was(name: str, policy: str, refresh_golden: bool) -> None:
    path = GOLDEN / f"{name}.json"
    found = summary(name, policy)
    if refresh_golden:
        kept = json.loads(path.read_text()) if path.exists() else {}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(kept | {policy: found}, indent=2, sort_keys=True) + "\n")
    assert json.loads(path.read_text())[policy] == found
