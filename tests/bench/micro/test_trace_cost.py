"""`paceline bench trace`: a row per size, with the flows beside the cost."""

import json
from pathlib import Path

import pytest

from paceline.cli import main

pytestmark = pytest.mark.slow


def test_each_size_is_measured_in_a_process_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.toml").write_text("arrival_every_s = 0.01\nmedian_s = 1e5\nsigma = 0.1\n")
    command = ["bench", "trace", str(tmp_path / "w.toml"), "--servers", "5", "--servers", "10"]
    assert main([*command, "--arrived-s", "0.5", "--simulated-s", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    small, large = found["sizes"]
    assert (small["servers"], large["servers"]) == (5, 10)
    assert small["flows"] < large["flows"]
    for size in (small, large):
        assert size["flows_sending"] > 0 and size["wall_s_per_simulated_s"] > 0
        assert 10 < size["peak_memory_mb"] < 4000
        per_flow_us = 1e6 * size["cpu_s_per_simulated_s"] / max(size["flows_sending"], 1.0)
        assert size["us_per_flow_and_simulated_s"] == pytest.approx(per_flow_us, rel=0.01, abs=200)
    assert found["setup"]["workload"] == "w.toml"
