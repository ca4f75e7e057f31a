"""The job's name and the variables that `run` adds."""

import os
from pathlib import Path

import pytest

from nccl_shim.launcher import INJECT, job_name, observed_environment


@pytest.mark.parametrize(
    ("env", "command", "hostname", "name"),
    [
        ({"SLURM_JOB_ID": "7"}, ["torchrun", "t.py"], "h", "slurm-7"),
        ({"PACELINE_JOB": "mine", "SLURM_JOB_ID": "7"}, ["t"], "h", "mine"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, ["t"], "bert-large-worker-12", "bert-large"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, ["t"], "bert-master-0", "bert"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, ["t"], "resnet-3-x7k2p", "resnet"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, ["t"], "resnet-3", "resnet"),
        ({"KUBERNETES_SERVICE_HOST": "x"}, ["t"], "lonely", "lonely"),
        ({}, ["torchrun", "--rdzv-id=run5", "train.py"], "h", "run5"),
        ({}, ["torchrun", "--rdzv_id", "run6", "train.py"], "h", "run6"),
        ({}, ["torchrun", "--nproc-per-node", "2", "/a/train.py"], "h", f"train-{os.getpid()}"),
        ({}, ["/usr/bin/mpirun"], "h", f"mpirun-{os.getpid()}"),
    ],
)
def test_the_cluster_names_the_job(env: dict, command: list, hostname: str, name: str) -> None:
    assert job_name(env, command, hostname) == name


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


def test_without_a_library_nccl_keeps_its_own_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_SHIM_LIBRARY", "/nonexistent.so")
    added = observed_environment({"NCCL_PROFILER_PLUGIN": "inspector"}, ["t"], "h")
    assert "NCCL_PROFILER_PLUGIN" not in added and "NCCL_SHIM_CHAIN" not in added
