"""`paceline sim testbed`: measurements beside the simulator, and wrong files in one line."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.flowcore.model.units import PAYLOAD_SHARE
from tests.commands.output import one_line, run_json

SCENARIO = """
version = 1
name = "two"
duration_s = 4.0
topology = { kind = "star", hosts = 2, link_gbps = 1.0 }

[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.3

[[job]]
name = "b"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.3
"""


def measured(directory: Path, **slowdowns: float) -> list[str]:
    """The arguments for a file with these."""
    (directory / "two.toml").write_text(SCENARIO)
    controls = [{"control": name, "mean_slowdown": value} for name, value in slowdowns.items()]
    found = {"result": {"measured": {"two": {"controls": controls}}}}
    (directory / "mixes.json").write_text(json.dumps(found))
    return [str(directory / "mixes.json"), "--scenarios", str(directory), "--scenario", "two"]


def test_a_policy_is_judged_and_tcp_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = measured(tmp_path, cubic=3.0, paceline=1.005, gate=1.0)
    _, found = run_json(["sim", "testbed", *given], capsys)
    assert found["agree"] is True
    rows = {row["control"]: row for row in found["rows"]}
    assert rows.keys() == {"cubic", "paceline"}, "what the simulator has no likeness of is left out"
    assert rows["cubic"]["policy"] == "fair" and not rows["cubic"]["judged"]
    # Two jobs that fit one after the other take turns.
    assert rows["paceline"]["simulated"] == pytest.approx(1.0, abs=1e-3)
    assert rows["paceline"]["ratio"] == pytest.approx(1 / 1.005, abs=1e-3)


ALONE_S = 0.51
OTHERS = """
[[cross_traffic]]
from = "h0"
to = "h1"
every_s = 2.0
lasts_s = [1.0, 1.0]
gbps = 1.0
"""


def test_beside_cross_traffic_others_are_compared_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.toml").write_text(SCENARIO + OTHERS)
    found = [("cubic", 1.5, 200), ("paceline", 1.2, 200), ("paceline-yield", 1.3, 180), ("paceline-first", 1.1, 50)]
    jobs = [{"name": name, "alone_iteration_s": ALONE_S} for name in ("a", "b")]
    controls = [
        {"control": name, "mean_slowdown": s, "cross_traffic_bytes": [[mb * 1e6]], "jobs": jobs}
        for name, s, mb in found
    ]
    (tmp_path / "jobs.json").write_text(json.dumps({"scenario": "two", "controls": controls}))
    given = ["sim", "testbed", str(tmp_path / "jobs.json"), "--scenarios", str(tmp_path)]
    assert main([*given, "--json"]) == 1
    rows = {row["control"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert [row["others_measured"] for row in rows.values()] == [1.0, 1.0, 0.9, 0.25]
    assert rows["cubic"]["others_simulated"] == 1.0
    # Who counts for sixteen gets nearly all, and who waits for no turn what TCP would have given.
    assert rows["paceline-first"]["others_simulated"] < 0.7 < rows["paceline-yield"]["others_simulated"]
    assert rows["paceline-first"]["simulated"] < rows["paceline"]["simulated"] < rows["cubic"]["simulated"]
    # Both jobs need so much of the link, and others sent for four seconds.
    need, bounds = 2 * 25e6 * 8e-9 / ALONE_S / PAYLOAD_SHARE, [row.get("bound") for row in rows.values()]
    left = [1 - mb * 8e-3 / 4 / PAYLOAD_SHARE for _, _, mb in found]
    assert bounds == [pytest.approx(max(1.0, need / part)) for part in left]
    assert main(given) == 1
    printed = capsys.readouterr().out
    assert "others" in printed and "no policy that leaves others 95% of what they have beside cubic" in printed


def test_a_policy_that_is_far_off_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "testbed", *measured(tmp_path, paceline=1.05)]) == 1
    assert "differs" in capsys.readouterr().out


def test_what_was_not_measured_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = measured(tmp_path, paceline=1.0)[:-1]
    assert main(["sim", "testbed", *given, "other"]) == 2
    assert "no measurement of 'other'" in one_line(capsys)
