"""`run` and `jobs` as a person types them."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.python_writer import PythonWriter

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "nccl_shim"]


def call(env: dict, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *arguments], env=env, capture_output=True, text=True, check=False, timeout=60)


def test_run_becomes_the_command(clean_env: dict) -> None:
    done = call(clean_env, "run", "--job", "j", "--", "sh", "-c", "echo $PACELINE_JOB; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "j\n", "")


def test_run_needs_nothing_but_python(clean_env: dict, tmp_path: Path) -> None:
    for package in ("rich", "numpy"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('not on this machine')\n")
    env = clean_env | {"PYTHONPATH": f"{tmp_path}:{clean_env['PYTHONPATH']}"}
    assert call(env, "run", "--", "sh", "-c", "exit 5").returncode == 5
    assert json.loads(call(env, "jobs", "--json").stdout)["processes"] == []


def test_run_reaps_what_ended_jobs_left(clean_env: dict, shm_dir: Path) -> None:
    count = "from nccl_shim.segment.writer import process_writer; process_writer()"
    subprocess.run([sys.executable, "-c", count], env=clean_env, check=True)
    assert len(list(shm_dir.iterdir())) == 1
    call(clean_env, "run", "--", "true")
    assert list(shm_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run"], "no command"),
        (["run", "--job", " ", "--", "true"], "--job is empty"),
        (["run", "--job", "alice/bert", "--", "true"], "--job is alice/bert, expected a name without /"),
        (["run", "--job", "b" * 64, "--", "true"], "--job has 64 bytes, expected at most 63"),
        (["run", "--job", "\x1b[2J", "--", "true"], "--job is '\\x1b[2J', expected printable characters"),
        (["run", "--weight", "11", "--", "true"], "--weight is 11, expected 0.1 to 10"),
        (["run", "--iterations", "0", "--", "true"], "--iterations is 0, expected a number from 1 to"),
        (["run", "--iterations", "1e6", "--", "true"], "--iterations is 1e6, expected a number"),
        (["run", "--weight", "much", "--", "true"], "--weight is much, expected 0.1 to 10"),
        (["run", "--", "no-such-program"], "no-such-program: not found"),
        (["jobs", "--interval", "0"], "--interval is 0.0"),
        (["jobs", "--watch", "--json"], "exclude"),
        (["jobs", "--shm-dir", __file__], "expected a directory"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(clean_env: dict, arguments: list, line: str) -> None:
    done = call(clean_env, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr and done.stderr.count("\n") == 1


def test_a_wrong_name_in_the_environment_is_refused_too(clean_env: dict) -> None:
    done = call(clean_env | {"PACELINE_JOB": "é" * 32}, "run", "--", "true")
    assert (done.returncode, done.stdout) == (2, "") and "PACELINE_JOB has 64 bytes" in done.stderr


@pytest.mark.parametrize("name", ["run", "jobs"])
def test_help_has_an_example(clean_env: dict, name: str) -> None:
    done = call(clean_env, name, "--help")
    assert done.returncode == 0 and f"example:\n  paceline {name}" in done.stdout


@pytest.fixture
def a_job(shm_dir: Path) -> PythonWriter:
    writer = PythonWriter(Identity("bert", shm_dir, 1, 4))
    record = writer.find(Kind.PUSH, Source.PS, 0, 1, 4, 3)
    for _ in range(4):
        writer.enqueue(record, 25_000_000, 25_000_000)
        writer.transmit(record, 25_000_000, 0)
        writer.end_iteration()
    writer.enqueue(record, 3_000, 3_000)
    return writer


def test_jobs_json(clean_env: dict, a_job: PythonWriter) -> None:
    done = call(clean_env, "jobs", "--json")
    [row] = json.loads(done.stdout)["processes"]
    expected = {
        "job": "bert",
        "rank": 1,
        "world_size": 4,
        "role": "worker",
        "pid": os.getpid(),
        "alive": True,
        "iteration": 4,
        "waiting_bytes": 3000,
        "sent_bytes": 0,
        "enqueued_bytes": 3000,
        "learned_iteration_bytes": 25_000_000,
        "sources": ["ps"],
        "peers": [{"peer": 3, "enqueued_bytes": 100_003_000, "sent_bytes": 100_000_000, "received_bytes": 0}],
    }
    assert {name: row[name] for name in expected} == expected
    assert done.stdout.count("\n") == 1 and done.stderr == ""


def test_jobs_table(clean_env: dict, a_job: PythonWriter) -> None:
    done = call(clean_env | {"COLUMNS": "80"}, "jobs")
    header, row = done.stdout.splitlines()
    assert header.split() == ["job", "rank", "peer", "iter", "waiting", "sent", "per", "iter", "time", "age"]
    assert row.split()[:8] == ["bert", "1/4", "3", "4", "3.0", "kB", "0", "B"]
    assert "25.0 MB" in row


def test_jobs_with_nothing_to_show_says_what_to_do(clean_env: dict, shm_dir: Path) -> None:
    done = call(clean_env, "jobs")
    assert done.returncode == 0 and "paceline run" in done.stdout


def test_jobs_names_files_it_does_not_believe(clean_env: dict, shm_dir: Path) -> None:
    (shm_dir / "x.pls").write_text("?")
    done = call(clean_env, "jobs")
    assert done.returncode == 0 and "x.pls is not believed" in done.stderr


def test_a_file_name_cannot_reach_the_terminal(clean_env: dict, shm_dir: Path) -> None:
    (shm_dir / "\x1b[2J.pls").write_text("?")
    done = call(clean_env, "jobs")
    assert "\x1b" not in done.stderr and "\\x1b[2J.pls is not believed" in done.stderr


def test_a_job_named_like_markup_is_shown_as_it_is(clean_env: dict, shm_dir: Path) -> None:
    writer = PythonWriter(Identity("[red]bert", shm_dir, 1, 4))
    assert "[red]bert" in call(clean_env, "jobs").stdout
    assert writer is not None


def test_watch_keeps_up_until_interrupted(clean_env: dict, a_job: PythonWriter) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "jobs", "--watch", "--interval", "0.1"],
        env=clean_env,
        stdout=theirs,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the test runner may ignore it
    )
    os.close(theirs)
    seen = b""
    until = time.monotonic() + 20
    while b"    5  " not in seen and time.monotonic() < until:
        seen += os.read(ours, 65536)
        if b"bert" in seen and a_job is not None:
            a_job.end_iteration()
            a_job = None
    child.send_signal(signal.SIGINT)
    until = time.monotonic() + 10
    with suppress(OSError):  # the terminal hangs up with its last writer
        while time.monotonic() < until:  # a full one would keep it from ending
            os.read(ours, 65536)
    assert child.wait(timeout=10) == 0
    os.close(ours)
    assert b"    5  " in seen, "the new iteration appeared"
