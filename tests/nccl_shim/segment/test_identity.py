"""Python and C read the same identity out of the same environment."""

import json
import os
import subprocess
import sys

import pytest

from nccl_shim.segment.identity import identity_from_env

ASK_C = """
import json
from nccl_shim.segment.clibrary import CIdentity, load_library
identity = CIdentity()
load_library().pls_identity_from_env(identity)
print(json.dumps([identity.job.decode(), identity.dir.decode(), identity.global_rank, identity.world_size,
                  identity.local_rank, identity.role]))
"""
WEIGHTS_OF_C = """
import json, os, sys
from nccl_shim.segment.clibrary import load_library
found = []
for text in json.loads(sys.argv[1]):
    os.environ["PACELINE_WEIGHT"] = text
    found.append(load_library().pls_weight_milli_from_env())
print(json.dumps(found))
"""
WEIGHTS = {
    "": 0,
    "2": 2000,
    "0.25": 250,
    "10.": 10_000,
    "1.001": 1001,
    "best-effort": 100,
    "normal": 1000,
    **dict.fromkeys(["1,5", "-1", ".5", "1.0001", "9999", "inf", "1e1", " 1", "best", "²"], 0),
}
CASES = {
    "torchrun": (
        {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "run7"},
        ("run7", 3, 8, 1),
    ),
    "torchrun without a name": ({"RANK": "0", "TORCHELASTIC_RUN_ID": "none"}, (None, 0, 0, -1)),
    "slurm": (
        {"SLURM_JOB_ID": "42", "SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1"},
        ("slurm-42", 5, 16, 1),
    ),
    "torchrun under slurm": (
        {"SLURM_JOB_ID": "42", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "7", "WORLD_SIZE": "16"},
        ("slurm-42", 7, 16, -1),
    ),
    "the launcher decides": ({"PACELINE_JOB": "bert", "SLURM_JOB_ID": "42", "RANK": "1"}, ("bert", 1, 0, -1)),
    "mpi": (
        {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
        (None, 2, 4, 0),
    ),
    "kubernetes indexed job": ({"JOB_COMPLETION_INDEX": "6", "PACELINE_JOB": "x"}, ("x", 6, 0, -1)),
    "nonsense": (
        {"RANK": "-4", "WORLD_SIZE": "many", "LOCAL_RANK": "99999999999", "PACELINE_JOB": "n"},
        ("n", -1, 0, -1),
    ),
    "a server": ({"PACELINE_ROLE": "server", "PACELINE_JOB": "p" * 100}, ("p" * 54 + "-020251d5", -1, 0, -1)),
    "nothing": ({}, (None, -1, 0, -1)),
}


def test_weights(clean_env: dict) -> None:
    assert {text: identity_from_env({"PACELINE_WEIGHT": text}).weight_milli for text in WEIGHTS} == WEIGHTS
    done = subprocess.run(
        [sys.executable, "-c", WEIGHTS_OF_C, json.dumps([*WEIGHTS])],
        env=clean_env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == [*WEIGHTS.values()]


def test_iterations(clean_env: dict) -> None:
    said = {"": 0, "1000": 1000, "-1": 0, "1e3": 0, "99999999999": 0}
    assert {text: identity_from_env({"PACELINE_ITERATIONS": text}).iterations for text in said} == said
    asked = WEIGHTS_OF_C.replace("PACELINE_WEIGHT", "PACELINE_ITERATIONS").replace("weight_milli", "iterations")
    done = subprocess.run(
        [sys.executable, "-c", asked, json.dumps([*said])], env=clean_env, check=True, capture_output=True
    )
    assert json.loads(done.stdout) == [*said.values()]


@pytest.mark.parametrize("case", CASES)
def test_environment(case: str, clean_env: dict) -> None:
    env, (job, rank, world_size, local_rank) = CASES[case]
    env = clean_env | env
    done = subprocess.run([sys.executable, "-c", ASK_C], env=env, check=True, capture_output=True, text=True)
    of_c = json.loads(done.stdout)
    identity = identity_from_env(env)
    assert (identity.global_rank, identity.world_size, identity.local_rank) == (rank, world_size, local_rank)
    assert of_c[1:] == [str(identity.directory), rank, world_size, local_rank, identity.role]
    if job is None:
        assert of_c[0].startswith("pid-") and identity.job == f"pid-{os.getpid()}"
    else:
        assert of_c[0] == identity.job_bytes.decode() == job
