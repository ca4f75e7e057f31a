"""The command as a whole: help, errors in one line, exit statuses. What they compute is tested with them."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline import cli
from paceline.commands.arguments import CommandError
from tests.commands.output import one_line

ROOT = Path(__file__).parents[2]
COMMANDS = [[], ["demo"], ["sim"], ["sim", "run"], ["sim", "mixes"], ["bench"], ["bench", "allocate"]]
COMMANDS += [["bench", "jobs"], ["bench", "clean"], ["probe"], ["status"], ["top"], ["explain"], ["release"]]
COMMANDS += [["bench", "negotiate"], ["bench", "scale"], ["switch"], ["switch", "top"]]


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
        (["switch", "top", "--address", "127.0.0.1:1", "--once"], "no switch listens on 127.0.0.1:1"),
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


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_are_like_dev_null(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m paceline sim run scenarios/two-jobs.toml --policy fair {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.split())


def test_with_stdout_closed_an_error_is_still_one_line(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m paceline status --runtime-directory {shlex.quote(str(tmp_path))} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith("paceline: no hostd answers") and done.stderr.count("\n") == 1


def test_with_stderr_closed_an_error_is_not_printed_as_a_result() -> None:
    command = f"{shlex.quote(sys.executable)} -m paceline sim run no-such.toml --policy fair 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(unbuffered: str) -> None:
    command = [sys.executable, "-m", "paceline", "sim", "run", "scenarios/two-jobs.toml", "--policy", "fair"]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and done.stderr.count("\n") == 1


def test_help_does_not_load_what_commands_need() -> None:
    code = (
        "import sys; from paceline.cli import main; main(['--help'])\n"
        "assert not {'numpy', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
