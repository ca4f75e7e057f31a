"""What the processes of a run are told."""

from pathlib import Path

from bench.jobs.launch import process_specs
from bench.testbed.addresses import Addresses
from paceline.sim.scenario_file import read_scenario

WEIGHTS = Path(__file__).parents[3] / "scenarios/testbed/weights.toml"


def test_a_job_asks_for_its_weight(tmp_path: Path) -> None:
    scenario = read_scenario(WEIGHTS)
    specs = process_specs(scenario, 1, "synthetic", Addresses(scenario.topology), tmp_path)
    asked = {spec.job: spec.env.get("PACELINE_WEIGHT") for spec in specs}
    assert asked == {"heavy": "4.000", "light": None, "best-effort": "0.100"}
