"""A sweep over placements and policies, from its file to the matrix and its picture."""

from pathlib import Path
from typing import Any

import pytest

from paceline.cli import main
from paceline.sim.interval import interval
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


@pytest.mark.slow
def test_every_placement_with_every_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.toml").write_text("gpu_mix = [[2, 1], [3, 1]]\n")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    results, figure = tmp_path / "r.jsonl", tmp_path / "m.png"
    command = ["sim", "sweep", str(tmp_path / "sweep.toml"), "--results", str(results), "--processes", "1"]
    assert main([*command, "--seeds", "2"]) == 0
    rows = sweep.read_rows(results)
    assert len(rows) == 2 * 2 * 3
    found = tables(rows)
    assert len(found) == 3
    (title, (columns, lines)), *_ = found.items()
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


def row(placement: str, policy: str, seed: int, jct_s: float) -> dict[str, Any]:
    run = {"trace": {"file": "w.toml"}, "load": 1.0}
    return {"run": run, "placement": placement, "policy": policy, "seed": seed, "mean_jct_s": jct_s}


def test_cells_beside_the_shortest_and_policies_beside_fair() -> None:
    """Seed by seed: what is common to all cells of a seed is no part of the interval."""
    rows = [
        row(placement, policy, seed, 100.0 * seed * factor)
        for seed in (1, 2)
        for placement, policy, factor in (
            ("lwf", "fair", 1.1),
            ("lwf", "paceline", 1.0),
            ("random", "fair", 2.0),
            ("random", "paceline", 1.5),
        )
    ]
    found = tables(rows)
    assert found["w.toml: % above lwf with paceline"][1] == [
        ("lwf", "+10.0 ± 0.0", "+0.0 ± 0.0"),
        ("random", "+100.0 ± 0.0", "+50.0 ± 0.0"),
    ]
    assert found["w.toml: % above fair, over all placements"][1] == [("paceline", "-17.0 ± 0.0", "-25.0", "-9.1")]
    assert len(tables(rows[:4])) == 1  # of one seed nothing is known about how sure it is


@pytest.mark.parametrize(("values", "reach"), [([1.0, 3.0], 12.706), ([2.0] * 5, 0.0), ([7.0], 0.0)])
def test_students_interval(values: list[float], reach: float) -> None:
    assert interval(values) == (pytest.approx(sum(values) / len(values)), pytest.approx(reach))
