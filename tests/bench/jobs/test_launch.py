"""What the processes of a run are told."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.jobs.launch import process_specs, throttled
from bench.testbed.addresses import Addresses
from paceline.failure import Failure
from paceline.sim.scenario_file import read_scenario

WEIGHTS = Path(__file__).parents[3] / "scenarios/testbed/weights.toml"


def test_a_job_asks_for_its_weight(tmp_path: Path) -> None:
    scenario = read_scenario(WEIGHTS)
    specs = process_specs(scenario, 1, "synthetic", Addresses(scenario.topology), tmp_path)
    asked = {spec.job: spec.env.get("PACELINE_WEIGHT") for spec in specs}
    assert asked == {"heavy": "4.000", "light": None, "best-effort": "0.100"}


def test_a_throttled_job_sends_through_our_plugin_and_must_be_over_nccl(tmp_path: Path) -> None:
    library = tmp_path / "libpaceline_net.so"
    library.touch()
    scenario = read_scenario(WEIGHTS)
    specs = {
        workload: process_specs(scenario, 1, workload, Addresses(scenario.topology), tmp_path)
        for workload in ("nccl", "synthetic")
    }
    named = [replace(spec, env={**spec.env, "PACELINE_NET_LIBRARY": str(library)}) for spec in specs["nccl"]]
    for spec in throttled(named):
        assert (spec.env["NCCL_NET_PLUGIN"], spec.env["NCCL_NET"]) == (str(library), "Paceline")
    with pytest.raises(Failure, match="is not over NCCL"):
        throttled(specs["synthetic"])
