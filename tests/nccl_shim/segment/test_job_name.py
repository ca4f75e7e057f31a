"""A job without a name of its own has the same one on all of its hosts, in Python and in C."""

import os
import random
from collections.abc import Callable, Mapping

import pytest

from nccl_shim.segment.clibrary import CIdentity
from nccl_shim.segment.job_name import MOST_BYTES, job_name

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
RENDEZVOUS = {"MASTER_ADDR": "h0", "MASTER_PORT": "29500"}
HOST = os.uname().nodename
CASES: dict[str, tuple[dict[str, str], str]] = {
    "the owner's word": ({"PACELINE_JOB": "mine", "SLURM_JOB_ID": "7"}, "mine"),
    "of any letters": ({"PACELINE_JOB": "größer (2)"}, "größer (2)"),
    "a user's name is not the job's to say": ({"PACELINE_JOB": "alice/bert"}, "alice_bert"),
    "mpirun": ({"PMIX_NAMESPACE": "prterun-h0-77@1", "SLURM_JOB_ID": "42"}, "mpi-prterun-h0-77@1"),
    "mpirun of Open MPI 4": ({"OMPI_MCA_ess_base_jobid": "3344", "PBS_JOBID": "1.pbs"}, "mpi-3344"),
    "srun with PMIx": (
        {"PMIX_NAMESPACE": "slurm.pmix.42.1", "SLURM_JOB_ID": "42", "SLURM_STEP_ID": "1"},
        "slurm-42.1",
    ),
    "srun": ({"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0"} | RENDEZVOUS, "slurm-42.0"),
    "an older srun": ({"SLURM_JOB_ID": "42", "SLURM_STEPID": "3"}, "slurm-42.3"),
    "sbatch": ({"SLURM_JOB_ID": "42"}, "slurm-42"),
    "the batch step": ({"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "4294967291"}, "slurm-42"),
    "one of two launches in an allocation": ({"SLURM_JOB_ID": "42"} | RENDEZVOUS, "slurm-42-29500"),
    "a pod of a PyTorchJob": (POD | {"POD_NAME": "bert-large-worker-12"} | RENDEZVOUS, "bert-large"),
    "its master": (POD | {"POD_NAME": "bert-large-master-0", "MASTER_ADDR": "localhost"}, "bert-large"),
    "a pod of an indexed Job": (POD | {"POD_NAME": "resnet-3-x7k2p"}, "resnet"),
    "a pod of a StatefulSet": (POD | {"POD_NAME": "resnet-3"}, "resnet"),
    "a job with numbers in its name": (POD | {"POD_NAME": "gpt-3-12"}, "gpt-3"),
    "by the downward API": (POD | {"JOB_NAME": "bert", "POD_NAME": "x", "POD_NAMESPACE": "team-a"}, "team-a.bert"),
    "a pod of no controller": (POD | {"POD_NAME": "lonely"}, "lonely"),
    "such pods that meet": (POD | {"POD_NAME": "lonely"} | RENDEZVOUS, "h0:29500"),
    "a variable of another program": ({"JOB_NAME": "build", "JOB_ID": "7"} | RENDEZVOUS, "h0:29500"),
    "LSF": ({"LSB_JOBID": "9", "LSB_JOBINDEX": "0"}, "lsf-9"),
    "an array of LSF": ({"LSB_JOBID": "9", "LSB_JOBINDEX": "4"}, "lsf-9.4"),
    "PBS": ({"PBS_JOBID": "12[3].head"} | RENDEZVOUS, "pbs-12[3].head-29500"),
    "SGE": ({"JOB_ID": "7", "SGE_ROOT": "/sge", "SGE_TASK_ID": "undefined"}, "sge-7"),
    "an array of SGE": ({"JOB_ID": "7", "SGE_ROOT": "/sge", "SGE_TASK_ID": "2"}, "sge-7.2"),
    "torchrun": ({"TORCHELASTIC_RUN_ID": "run7"} | RENDEZVOUS, "run7"),
    "torchrun without an id": ({"TORCHELASTIC_RUN_ID": "none"} | RENDEZVOUS, "h0:29500"),
    "a run id of odd letters": ({"TORCHELASTIC_RUN_ID": "team/run 7"}, "team_run_7"),
    "on one host": ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}, f"{HOST}:29500"),
    "on one host, by name": ({"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}, f"{HOST}:1"),
    "over IPv6": ({"MASTER_ADDR": "fd00::1", "MASTER_PORT": "1", "RAY_JOB_ID": "02"}, "fd00::1:1"),
    "Ray": ({"RAY_JOB_ID": "02000000", "PACELINE_LAUNCH": "train-17"}, "ray-02000000"),
    "no name but its launch": ({"PACELINE_LAUNCH": "train-17", "MASTER_PORT": "1"}, "train-17"),
    "none": ({}, f"pid-{os.getpid()}"),
    "empty": (
        dict.fromkeys(("PACELINE_JOB", "SLURM_JOB_ID", "MASTER_ADDR", "PMIX_NAMESPACE"), ""),
        f"pid-{os.getpid()}",
    ),
}
VARIABLES = sorted({name for env, _ in CASES.values() for name in env})
ODD = (
    "",
    "none",
    "0",
    "a" * 63,
    "a" * 64,
    "ö" * 40,
    "x" * 53 + "ö" * 9,
    "a/b c\t",
    "bert-ps-3",
    "-1",
    "a--1",
    "127.0.0.1",
)

Both = Callable[[Mapping[str, str]], tuple[str, str]]


@pytest.fixture
def both(library, monkeypatch: pytest.MonkeyPatch) -> Both:
    """What Python and C make of an environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def ask(env: Mapping[str, str]) -> tuple[str, str]:
        with monkeypatch.context() as here:
            for name, value in env.items():
                here.setenv(name, value)
            identity = CIdentity()
            library.pls_identity_from_env(identity)
        return job_name(env), os.fsdecode(identity.job)

    return ask


@pytest.mark.parametrize("case", CASES)
def test_its_name(case: str, both: Both) -> None:
    env, name = CASES[case]
    assert both(env) == (name, name)


def test_any_environment(both: Both) -> None:
    choice = random.Random(7)
    values = [*ODD, *{value for env, _ in CASES.values() for value in env.values()}]
    seen = set()
    for _ in range(3000):
        env = {name: choice.choice(values) for name in choice.sample(VARIABLES, choice.randrange(8))}
        of_python, of_c = both(env)
        assert of_python == of_c, env
        assert 0 < len(os.fsencode(of_c)) <= MOST_BYTES and "/" not in of_c
        seen.add(of_c)
    assert len(seen) > 200


def test_two_long_names_stay_two(both: Both) -> None:
    one, other = ({"PACELINE_JOB": "a" * 80 + end} for end in "bc")
    assert both(one)[0] != both(other)[0] and both(one)[0].startswith("a" * 54 + "-")
