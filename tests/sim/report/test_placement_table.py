"""A sweep over placements and cluster sizes, from its file to the tables."""

from pathlib import Path

import pytest

from paceline.cli import main
from paceline.sim.report.placement_table import MACHINES, TIMES, tables
from paceline.sim.trace import sweep

SWEEP = """
servers = [2, 4]
gpus_per_server = 4
topology = "dally"
engine = "analytic-table"
placement = ["dally", "tiresias"]
policies = ["paceline"]
[[trace]]
file = "w.toml"
format = "generated"
jobs = 12
"""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    workload = 'models = ["resnet18", "vgg11"]\ncompute_s = 0.5\ngpu_mix = [[1, 1], [4, 1], [6, 1]]\n'
    (tmp_path / "w.toml").write_text(workload)
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_every_placement_on_every_cluster(sweep_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = sweep_file.parent / "r.jsonl"
    assert main(["sim", "sweep", str(sweep_file), "--results", str(results), "--processes", "1"]) == 0
    rows = sweep.read_rows(results)
    assert [(row["servers"], row["placement"]) for row in rows] == [
        (servers, placement) for servers in (2, 4) for placement in ("dally", "tiresias")
    ]
    assert all(row["jobs_finished"] == 12 for row in rows)
    found = tables(rows)
    assert len(found) == 4
    (columns, lines), (machine_columns, machine_lines) = list(found.values())[:2]
    assert (columns, machine_columns) == (TIMES, MACHINES)
    assert [line[0] for line in lines] == [line[0] for line in machine_lines] == ["dally", "tiresias"]
    gain = 1.0 - rows[0]["mean_jct_s"] / rows[1]["mean_jct_s"]
    assert lines[1][TIMES.index("JCT gain")] == f"{100 * gain:+.0f} %"
    assert lines[0][TIMES.index("JCT gain")] == ""
    capsys.readouterr()
    for by in ("placement", "policy"):
        assert main(["sim", "compare", str(results), "--by", by]) == 0
    assert "dally" in capsys.readouterr().out


def test_an_unknown_placement_is_named(sweep_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep_file.write_text(SWEEP.replace("tiresias", "tiresia"))
    assert main(["sim", "sweep", str(sweep_file)]) == 2
    assert "placement[1]: found 'tiresia'" in capsys.readouterr().err
