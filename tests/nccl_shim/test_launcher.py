"""The job's name and the variables that `run` adds."""

import os
from pathlib import Path

import pytest

from nccl_shim.launcher import INJECT, launch_name, observed_environment


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["torchrun", "--nproc-per-node", "2", "/a/train.py"], f"train-{os.getpid()}"),
        (["/usr/bin/mpirun"], f"mpirun-{os.getpid()}"),
    ],
)
def test_a_launch_has_a_name_of_its_own(command: list, name: str) -> None:
    assert launch_name(command) == name
    added = observed_environment({"SLURM_JOB_ID": "7", "PACELINE_LAUNCH": "of-an-outer-run"}, command, "h")
    assert added["PACELINE_LAUNCH"] == name and "PACELINE_JOB" not in added, "the job's processes know better"


def test_environment(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_SHIM_LIBRARY", str(library_path))
    own = {"PYTHONPATH": "/a:/b", "NCCL_PROFILER_PLUGIN": "inspector", "PACELINE_SHM_DIR": "/shm"}
    added = observed_environment(own, ["t"], "job-ps-0", job="j", pattern="ps")
    assert added == {
        "PACELINE_JOB": "j",
        "PACELINE_SHM_DIR": "/shm",
        "PACELINE_PATTERN": "ps",
        "PACELINE_ROLE": "server",
        "PYTHONPATH": f"{INJECT}:/a:/b",
        "NCCL_PROFILER_PLUGIN": str(library_path),
        "NCCL_SHIM_CHAIN": "inspector",
    }
    again = observed_environment(own | added, ["t"], "h", job="j")
    assert again["PYTHONPATH"] == added["PYTHONPATH"], "running twice changes nothing"
    assert "NCCL_SHIM_CHAIN" not in again, "our plugin is not chained behind itself"
    assert "NCCL_SHIM_CHAIN" not in observed_environment({"NCCL_PROFILER_PLUGIN": "none"}, ["t"], "h")


@pytest.mark.parametrize(
    ("theirs", "parts"), [("", []), (":/x", ["", "/x"]), ("/x:", ["/x", ""]), ("/x::/y", ["/x", "", "/y"])]
)
def test_an_empty_part_of_pythonpath_is_the_working_directory_and_stays(theirs: str, parts: list[str]) -> None:
    """As in `PYTHONPATH=$PYTHONPATH:/x` where it was not set: training scripts import from there."""
    added = observed_environment({"PYTHONPATH": theirs}, ["t"], "h")
    assert added["PYTHONPATH"].split(":") == [str(INJECT), *parts]


def test_a_profiler_that_nccl_would_find_by_itself_is_chained(
    library_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PACELINE_SHIM_LIBRARY", str(library_path))
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert "NCCL_SHIM_CHAIN" not in observed_environment(env, ["t"], "h")
    (tmp_path / "libnccl-profiler.so").touch()
    assert observed_environment(env, ["t"], "h")["NCCL_SHIM_CHAIN"] == "libnccl-profiler.so"


def test_a_weight_goes_to_the_jobs_processes() -> None:
    assert observed_environment({}, ["t"], "h", weight="0.5")["PACELINE_WEIGHT"] == "0.5"
    assert "PACELINE_WEIGHT" not in observed_environment({"PACELINE_WEIGHT": "2"}, ["t"], "h"), "it is there already"


def test_how_many_iterations_go_to_the_jobs_processes() -> None:
    assert observed_environment({}, ["t"], "h", iterations=1000)["PACELINE_ITERATIONS"] == "1000"
    assert "PACELINE_ITERATIONS" not in observed_environment({}, ["t"], "h")


def test_without_a_library_nccl_keeps_its_own_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_SHIM_LIBRARY", "/nonexistent.so")
    added = observed_environment({"NCCL_PROFILER_PLUGIN": "inspector"}, ["t"], "h")
    assert "NCCL_PROFILER_PLUGIN" not in added and "NCCL_SHIM_CHAIN" not in added
