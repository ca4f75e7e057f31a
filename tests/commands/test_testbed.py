"""Commands where the testbed is missing, as after `pip install paceline`."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from paceline import cli
from paceline.commands import testbed
from tests.commands.output import one_line, run_json

COMMANDS = [["allocate"], ["clean"], ["paper"], ["report"], ["rate", "--backend", "htb"], ["negotiate", "--hosts", "2"]]
COMMANDS += [["hostd"], ["jobs", "x.toml"], ["scale", "x.json"], ["trace", "x.toml"]]


@pytest.mark.usefixtures("without_testbed")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_bench_without_the_testbed_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *command]) == 2
    assert one_line(capsys) == f"paceline: {testbed.NEEDED}\n"


@pytest.mark.usefixtures("without_testbed")
def test_the_simulator_does_not_need_the_testbed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.toml").write_text("arrival_every_s = 1.0\nmedian_s = 10.0\nsigma = 0.1\n")
    trace = ["sim", "trace", str(tmp_path / "w.toml"), "--format", "generated", "--servers", "4", "--jobs", "2"]
    _, found = run_json([*trace, "--policy", "fair"], capsys)
    assert found["jobs_finished"] == 2 and found["peak_memory_mb"] > 10


@pytest.mark.usefixtures("without_testbed")
def test_another_module_called_bench_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bench", ModuleType("bench"))
    monkeypatch.setattr(testbed, "CHECKOUT", tmp_path)
    assert cli.main(["bench", "allocate"]) == 2
    assert one_line(capsys) == f"paceline: {testbed.NEEDED}\n"


def test_what_is_broken_in_a_checkout_is_no_missing_testbed() -> None:
    assert testbed.is_missing(ModuleNotFoundError(name="bench"))
    assert not testbed.is_missing(ModuleNotFoundError(name="bench.jobs.no_such_module"))
    assert not testbed.is_missing(ModuleNotFoundError(name="torch"))
    assert not testbed.is_missing(ModuleNotFoundError(name="benchmark"))
