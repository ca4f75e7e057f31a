"""Slurm's scripts: they never fail, and a task's environment is the one in which a job is observed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.launcher import INJECT
from nccl_shim.segment.identity import identity_from_env

SLURM = Path(__file__).parents[2] / "deploy" / "slurm"
LUA = """
slurm = {SUCCESS = 0, NO_VAL = 4294967294}
dofile(arg[1])
local job = {min_nodes = tonumber(arg[2]), max_nodes = tonumber(arg[3]), comment = arg[4], environment = {}}
assert(slurm_job_submit(job, {}, 0) == slurm.SUCCESS)
print(job.environment.PACELINE_SHIM)
"""


def run(script: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [str(SLURM / script)]
    return subprocess.run(command, env={"PATH": os.defpath, **env}, capture_output=True, text=True, timeout=60)


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "paceline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m paceline "$@"\n')
    (tmp_path / "paceline").chmod(0o755)
    return tmp_path


def test_a_task_is_observed(bin_folder: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = run("task-prolog.sh", PACELINE_BIN=str(bin_folder), SLURM_JOB_ID="17", PYTHONPATH=root)
    exported = dict(line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
    assert all(line.startswith("export ") for line in done.stdout.splitlines())
    assert identity_from_env({**exported, "SLURM_JOB_ID": "17"}).job == "slurm-17"
    assert exported["PYTHONPATH"] == f"{INJECT}:{root}"


def test_a_qos_has_a_weight(bin_folder: Path) -> None:
    root = str(Path(__file__).parents[2])
    done = run("task-prolog.sh", PACELINE_BIN=str(bin_folder), SLURM_JOB_QOS="scavenger", PYTHONPATH=root)
    assert "export PACELINE_WEIGHT=best-effort" in done.stdout.splitlines()


@pytest.mark.parametrize("script", ["prolog.sh", "task-prolog.sh", "epilog.sh"])
def test_no_script_ever_fails(script: str, tmp_path: Path) -> None:
    """Without Paceline, a task starts as it would: a prolog that fails drains the node."""
    done = run(script, PACELINE_BIN=str(tmp_path), PACELINE=str(tmp_path / "none"), SLURM_JOB_ID="17")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_task_that_wants_no_shim_has_none(bin_folder: Path) -> None:
    assert run("task-prolog.sh", PACELINE_BIN=str(bin_folder), PACELINE_SHIM="0").stdout == ""


@pytest.mark.parametrize(
    ("nodes", "comment", "shim"),
    [((1, 1), "", "0"), ((1, 4294967294), "", "0"), ((2, 4), "", "nil"), ((2, 4), "x,paceline=off", "0")],
)
def test_jobs_that_need_no_shim(nodes: tuple[int, int], comment: str, shim: str, tmp_path: Path) -> None:
    """Where Lua is not installed Slurm's own reading of the file is all there is."""
    lua = shutil.which("lua") or shutil.which("lua5.4") or shutil.which("lua5.3")
    if lua is None:
        return
    (tmp_path / "submit.lua").write_text(LUA)
    command = [lua, str(tmp_path / "submit.lua"), str(SLURM / "job_submit.lua"), *map(str, nodes), comment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{shim}\n", "")
