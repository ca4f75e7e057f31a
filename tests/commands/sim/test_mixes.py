"""`paceline sim mixes`."""

import pytest

from paceline.cli import main
from tests.commands.output import run_json

pytestmark = pytest.mark.slow

MIXES = ["sim", "mixes", "--count", "2", "--seed", "4", "--duration-s", "5", "--policies", "paceline"]


def test_mixes_json(capsys) -> None:
    _, document = run_json([*MIXES, "--processes", "1"], capsys)
    assert (document["count"], document["seed"], document["kind"], document["duration_s"]) == (
        2,
        4,
        "star",
        5.0,
    )
    fair, ours = document["policies"]
    assert (fair["policy"], ours["policy"]) == ("fair", "paceline")  # the yardstick is always there
    assert fair["mean_vs_fair"] == fair["worst_vs_fair"] == fair["worst_job_vs_fair"] == 1.0
    assert [mix["number"] for mix in document["mixes"]] == [0, 1]
    for mix in document["mixes"]:
        assert len(mix["slowdowns"]["paceline"]) == mix["jobs"]
        assert ours["worst_ratio"] >= mix["ratios"]["paceline"] >= 0.9
        assert 0.4 < mix["load"] < 2.6


def test_processes_change_nothing_but_the_time(capsys) -> None:
    alone, together = (run_json([*MIXES, "--processes", count], capsys)[1] for count in "12")
    for time in ("wall_s", "cpu_s"):
        assert alone.pop(time) != together.pop(time)
    assert alone == together


def test_both_engines_say_the_same_of_a_mix(capsys) -> None:
    arguments = ["sim", "mixes", "--count", "2", "--duration-s", "10", "--policies", "fifo,paceline", "--engine"]
    in_array, in_reference = (run_json([*arguments, engine], capsys)[1] for engine in ("array", "reference"))
    assert in_array != in_reference
    for found, expected in zip(in_array["policies"], in_reference["policies"], strict=True):
        assert found["mean_ratio"] == pytest.approx(expected["mean_ratio"], rel=0.01)
        assert found["max_link_overload"] == pytest.approx(expected["max_link_overload"])


def test_what_the_array_engine_cannot_decide_runs_in_the_reference(capsys) -> None:
    arguments = ["sim", "mixes", "--count", "1", "--duration-s", "3", "--policies", "mlcc", "--engine"]
    in_array, in_reference = (run_json([*arguments, engine], capsys)[1] for engine in ("array", "reference"))
    assert in_array["policies"][1] == in_reference["policies"][1]


def test_mixes_on_a_tree_as_a_table(capsys) -> None:
    arguments = ["sim", "mixes", "--count", "1", "--kind", "tree", "--duration-s", "3", "--policies", "fair"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "worst job" in out


def test_beside_cross_traffic_what_it_gets_is_told(capsys) -> None:
    arguments = ["sim", "mixes", "--count", "1", "--duration-s", "6", "--policies", "paceline", "--cross-traffic"]
    _, document = run_json(arguments, capsys)
    fair, ours = document["policies"]
    assert fair["others_vs_fair"] == fair["least_others_vs_fair"] == 1.0
    assert 0.5 < ours["least_others_vs_fair"] <= ours["others_vs_fair"] < 2.0
    assert main(arguments) == 0
    assert "least" in capsys.readouterr().out
