"""A sweep over placements and policies, from its file to the matrix and its picture."""

from pathlib import Path

import pytest

from paceline.cli import main
from paceline.sim.report.matrix import tables
from paceline.sim.trace import sweep

SWEEP = """
servers = 4
gpus_per_server = 2
topology = "star"
placement = ["first-fit", "dally"]
policies = ["fair", "fair+adadual", "paceline"]
longest_iterations = 4
[[trace]]
file = "w.toml"
format = "generated"
jobs = 6
"""


def test_every_placement_with_every_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.toml").write_text("gpu_mix = [[2, 1], [3, 1]]\n")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    results, figure = tmp_path / "r.jsonl", tmp_path / "m.png"
    command = ["sim", "sweep", str(tmp_path / "sweep.toml"), "--results", str(results), "--processes", "1"]
    assert main([*command, "--seeds", "2"]) == 0
    rows = sweep.read_rows(results)
    assert len(rows) == 2 * 2 * 3
    ((title, (columns, lines)),) = tables(rows).items()
    assert title == "w.toml: mean JCT s"
    assert columns == ("placement", "fair", "fair+adadual", "paceline")
    assert [line[0] for line in lines] == ["first-fit", "dally"]
    mine = [row["mean_jct_s"] for row in rows if (row["placement"], row["policy"]) == ("dally", "fair+adadual")]
    assert lines[1][2].split()[0] == f"{sum(mine) / 2:.1f}"
    assert any(cell.endswith("*") for line in lines for cell in line)
    assert len(tables(rows[:2])[title][1]) == 1  # of a sweep that was interrupted, what there is
    capsys.readouterr()
    assert main(["sim", "compare", str(results), "--by", "matrix", "--figure", str(figure)]) == 0
    assert "adadual" in capsys.readouterr().out
    assert figure.stat().st_size > 1000
