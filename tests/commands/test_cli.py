"""The command as a whole: help, errors in one line, exit statuses. What they compute is tested with them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline import cli
from paceline.commands.arguments import CommandError

ROOT = Path(__file__).parents[2]
COMMANDS = [[], ["demo"], ["sim"], ["sim", "run"], ["sim", "mixes"], ["bench"], ["bench", "allocate"]]
COMMANDS += [["bench", "jobs"], ["bench", "clean"], ["probe"], ["status"], ["top"], ["explain"], ["release"]]
COMMANDS += [["bench", "negotiate"], ["bench", "scale"], ["switch"], ["switch", "top"]]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command said: nothing on stdout, one line on stderr."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("paceline: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert "example: paceline" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"paceline {paceline.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["simulate"], "simulate"),
        (["sim"], "COMMAND"),
        (["sim", "run"], "FILE"),
        (["sim", "run", "x.toml"], "--policy"),
        (["sim", "run", "x.toml", "--policy", "pacelin"], "did you mean 'paceline'?"),
        (["sim", "run", "x.toml", "--policy", "qqqq"], "expected one of fair"),
        (["sim", "run", "x.toml", "--policy", "fair", "--seed", "-1"], "an integer from 0"),
        (["sim", "run", "x.toml", "--policy", "fair", "--latency-ms", "nan"], "a number from 0"),
        (["sim", "run", "x.toml", "--policy", "fair", "--polic", "fair"], "--polic"),
        (["sim", "mixes", "--count", "0"], "an integer from 1"),
        (["sim", "mixes", "--count", "2", "--policies", "fair,,fifo"], "no policy ''"),
        (["sim", "mixes", "--count", "2", "--kind", "ring"], "ring"),
        (["bench", "negotiate", "--hosts", "7", "--switches", "3"], "7 hosts under 2 ToRs"),
        (["bench", "negotiate", "--hosts", "6", "--across", "2"], "a number from 0 to 1"),
        (["switch", "top", "--address", "nowhere"], "HOST:PORT"),
        (["switch", "top", "--address", "127.0.0.1:1", "--once"], "nobody listens on 127.0.0.1:1"),
        (["switch", "top", "--scenario", "scenarios/tree.toml"], "--switch"),
        (["switch", "top", "--scenario", "scenarios/tree.toml", "--switch", "x"], "expected a switch of it"),
        (["demo", "--figure", "x.doc"], ".png"),
        (["demo", "--figure", "no/such/folder/x.png"], "no directory"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert said in one_line(capsys)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (CommandError("a\nb\x1b[31m"), 2),
        (PermissionError(13, "Permission denied", "x.toml"), 2),
        (OSError("no file name in this one"), 2),
    ],
)
def test_failures_take_one_line(failure, status, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli, "_run", raising(failure))
    assert cli.main([]) == status
    assert "\x1b" not in one_line(capsys)


def test_interrupt_is_quiet(monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli, "_run", raising(KeyboardInterrupt()))
    assert cli.main([]) == 130
    assert capsys.readouterr() == ("", "")


def raising(failure: BaseException):
    def run(_argv):
        raise failure

    return run


def test_missing_matplotlib_is_said_before_running(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--simulate", "--figure", str(tmp_path / "demo.png")]) == 2
    assert one_line(capsys) == "paceline: figures need matplotlib: pip install 'paceline[plot]'\n"


def test_demo_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "demo.png"
    assert cli.main(["demo", "--simulate", "--json", "--figure", str(figure)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["figure"] == str(figure)
    assert figure.read_bytes().startswith(b"\x89PNG")
    fair, ours = document["controls"]
    assert (fair["control"], ours["control"]) == ("fair", "paceline")
    assert ours["mean_slowdown"] < 1.05 < 1.3 < fair["mean_slowdown"]
    assert ours["ratio_to_bound"] < fair["ratio_to_bound"]


def test_demo_for_people_writes_where_they_are(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--simulate"]) == 0
    out, err = capsys.readouterr()
    assert "simulator" in out
    assert err == ""  # no progress bar: stderr is no terminal
    assert (tmp_path / "out" / "demo.png").exists()


def test_bench_allocate_json(capsys, monkeypatch) -> None:
    from bench.micro import allocate

    # Few and once: this test is about the keys.
    measure_allocate, measure_decisions = allocate.measure_allocate, allocate.measure_decisions
    monkeypatch.setattr(allocate, "measure_allocate", lambda: measure_allocate(flows=20))
    monkeypatch.setattr(allocate, "measure_decisions", lambda: measure_decisions(decisions=20))
    assert cli.main(["bench", "allocate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["us_per_flow"]) == ["10", "100"]
    assert document["p90_decision_us"] > 0


def test_benchmark_decisions_fit() -> None:
    import random

    from bench.micro.allocate import DECISION_FLOWS, _random_decision, decide

    rng = random.Random(1)
    for _ in range(50):
        flows = _random_decision(rng)
        plans = decide(flows)
        assert len(plans) == DECISION_FLOWS
        assert all(plan.complete for plan in plans)


# ---- As a process ----


def test_module_and_exit_status() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "sim", "run", "no-such.toml", "--policy", "fair"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "paceline: no-such.toml: No such file or directory\n"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_closed_pipe_is_quiet(form: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "paceline", "sim", "run", "scenarios/two-jobs.toml", "--policy", "fair"]
    done = subprocess.run([*command, *form], stdout=write_end, stderr=subprocess.PIPE, cwd=ROOT)
    os.close(write_end)
    assert done.returncode == 141
    assert done.stderr == b""


def test_help_does_not_load_what_commands_need() -> None:
    code = (
        "import sys; from paceline.cli import main; main(['--help'])\n"
        "assert not {'numpy', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
