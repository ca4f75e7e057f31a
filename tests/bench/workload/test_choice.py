"""Which program plays a job, by the name given to --workload."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from bench.workload.choice import (
    NAMES,
    ON_GPU,
    RINGS,
    WorkloadError,
    check_workload,
    program_for,
    with_model,
    with_sizes,
)
from paceline.flowcore.model.scenario import Backend, JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

A = JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), 4.0, 0.1, 3, 0.0, 0.0)
B = JobSpec("b", Pattern.ALLREDUCE, ("h0", "h1", "h2"), (), 4.0, 0.1, 3, 0.0, 0.0)
SERVED = JobSpec("served", Pattern.PS, ("h0",), ("h1",), 4.0, 0.1, 3, 0.0, 0.0)


def test_auto_goes_by_the_pattern() -> None:
    assert [program_for(job, "auto").module.rpartition(".")[2] for job in (A, SERVED)] == ["ddp", "ps"]


def test_a_backend_is_what_auto_takes() -> None:
    on_gpu = replace(A, backend=Backend.NCCL)
    assert program_for(on_gpu, "auto") is ON_GPU["nccl"]
    assert program_for(on_gpu, "ddp") is RINGS["ddp"]  # a name that is given goes first


@pytest.mark.parametrize("workload", ["auto", "ddp", "synthetic"])
def test_overlap_is_played(workload: str) -> None:
    check_workload([replace(A, overlap=0.5)], workload)


def test_bursts_are_played() -> None:
    check_workload([replace(A, bursts=3), replace(SERVED, bursts=3, overlap=0.5)], "synthetic")
    check_workload([replace(SERVED, bursts=3, overlap=0.5)], "auto")


@pytest.mark.parametrize(
    ("job", "workload", "said"),
    [
        (replace(A, bursts=3), "auto", "workload 'ddp' cannot play job 'a' with bursts = 3; synthetic can"),
        (replace(A, overlap=0.5), "fsdp", "workload 'fsdp' cannot play job 'a' with overlap = 0.5; synthetic can"),
        (replace(A, overlap=0.5, backend=Backend.NCCL), "auto", "'nccl' cannot play job 'a' with overlap = 0.5"),
    ],
)
def test_what_a_kind_does_its_own_way_is_refused(job: JobSpec, workload: str, said: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        check_workload([job], workload)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_kind_is_a_program_of_its_own_that_exists() -> None:
    kinds = RINGS | ON_GPU
    assert len(set(kinds.values())) == len(kinds) == len(NAMES) - 3
    assert all(find_spec(program.module) for program in kinds.values())


@pytest.mark.parametrize("workload", ["a=fsdp", "a=fsdp,b=auto", " a = fsdp , b = ddp ", "b=ddp,a=fsdp"])
def test_jobs_may_be_of_different_kinds(workload: str) -> None:
    check_workload((A, B), workload)
    assert [program_for(job, workload) for job in (A, B)] == [RINGS["fsdp"], RINGS["ddp"]]


def test_one_kind_is_for_all_jobs() -> None:
    assert {program_for(job, "overlap") for job in (A, B)} == {RINGS["overlap"]}
    assert {program_for(job, "synthetic").module for job in (A, SERVED)} == {"bench.workload.synthetic"}


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("fsdq", "no workload 'fsdq'; did you mean 'fsdp'?"),
        ("mpi", "no workload 'mpi'; expected one of auto, synthetic"),
        ("", "no workload ''"),
        ("a=", "no workload ''"),
        ("c=fsdp", "names job 'c'; the scenario has a, b"),
        ("a=fsdp,overlap", "expected JOB=KIND at 'overlap'"),
        ("a=fsdp,a=ddp", "names job 'a' twice"),
        ("ps", "'ps' cannot play job 'a': its pattern is allreduce"),
        ("pipeline", "'pipeline' needs 2 workers; job 'b' has 3"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_line(workload: str, said: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        check_workload((A, B), workload)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_ring_cannot_play_a_job_with_servers() -> None:
    with pytest.raises(WorkloadError, match="its pattern is ps"):
        program_for(SERVED, "fsdp")


def test_a_model_is_trained_by_jobs_over_nccl() -> None:
    assert with_model("auto", "resnet50") == with_model("nccl", "resnet50") == "nccl-resnet50"
    assert with_model("a=nccl,b=nccl-fsdp", "gpt2-small") == "a=nccl-gpt2-small,b=nccl-fsdp-gpt2-small"
    check_workload((A, B), with_model("nccl-fsdp", "resnet50"))
    with pytest.raises(WorkloadError, match="workload 'fsdp' trains no model; nccl and nccl-fsdp do"):
        with_model("fsdp", "resnet50")


def test_a_model_is_as_large_as_it_is() -> None:
    scenario = Scenario("two", 1, None, SlotsSpec(), star(3, 1.0), (A, B), ())
    sized = with_sizes(scenario, "a=nccl-resnet50,b=nccl-fsdp-gpt2-small")
    assert [job.model_mb for job in sized.jobs] == pytest.approx([102.228, 1.5 * 497.759], abs=1e-3)
    assert with_sizes(scenario, "a=fsdp") == scenario
