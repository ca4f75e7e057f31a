"""`paceline sim faults`."""

import pytest

from paceline.cli import main
from paceline.sim.faults.host_shell import HostShell
from tests.commands.output import run_json

FAULTS = ["sim", "faults", "--count", "3", "--seed", "4"]


def test_faults_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json(FAULTS, capsys)
    assert (document["histories"], document["seed"], document["slots"]) == (3, 4, 16)
    assert (document["topologies"], document["violations"]) == (["star", "tree", "clos"], [])
    assert document["histories_per_s"] > 0 and "commit" in document


@pytest.mark.slow
def test_what_fails_is_printed_shrunk_with_the_way_to_see_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostShell, "lift_all", lambda self: None)
    assert main(["sim", "faults", "--topology", "star", "--count", "20"]) == 1
    out, _ = capsys.readouterr()
    [again, *_] = [line.split("paceline ")[1] for line in out.splitlines() if "again:" in line]
    assert ": lifted: h" in out and "violations" in out
    assert main(again.split()) == 1
    out, _ = capsys.readouterr()
    assert "FlowReady(" in out and ": lifted: h" in out.splitlines()[-1]


def test_one_history_and_all_that_happens_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "faults", "--seed", "4", "--topology", "clos", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("clos ") and lines[-1] == "all held"


@pytest.mark.slow
def test_workers_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json([*FAULTS, "--workers", "2"], capsys)
    assert (document["histories"], document["violations"]) == (3, [])
