"""What plays a job on the testbed, by the name that a person gives to --workload.

    auto                 ddp for all-reduce jobs, nccl where their backend is nccl, ps for parameter-server jobs
    fsdp                 the same kind for all jobs
    a=fsdp,b=overlap     a kind for each job that is named, auto for the others

A job's overlap and bursts mean what they mean in the simulator; a kind that has a way of its own refuses them. A real
model has its own size, which takes the place of the scenario's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from paceline.failure import Failure
from paceline.flowcore.model.scenario import Backend, JobSpec, Pattern, Scenario

AUTO, SYNTHETIC, DDP, NCCL, PS = "auto", "synthetic", "ddp", "nccl", "ps"
OVERLAP, BURSTS = "overlap", "bursts"


class WorkloadError(Failure):
    """The workload does not fit the scenario; str() says why in one line."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module's main, which gets the assignment and these arguments."""

    module: str
    arguments: tuple[str, ...] = ()
    uneven: bool = False  # iterations differ by themselves: only the mean of many says how long one takes
    workers: int | None = None  # that it needs, where it needs a certain number
    plays: tuple[str, ...] = ()  # keys of a job beyond computing, then sending once
    model_mb: float | None = None  # where it is the program's own: an all-reduce of so much sends what it sends


def _kind(module: str, *arguments: str, uneven: bool = False, workers: int | None = None) -> Program:
    return Program(f"bench.workload.kinds.{module}", arguments, uneven, workers)


RINGS = {
    DDP: Program("bench.workload.ddp", plays=(OVERLAP,)),
    "overlap": _kind("overlap"),
    "fsdp": _kind("fsdp"),
    "accumulate": _kind("habits", "accumulate"),
    "checkpoint": _kind("habits", "checkpoint", uneven=True),
    "long-tail": _kind("habits", "long-tail", uneven=True),
    "varied": _kind("habits", "varied", uneven=True),
    "tensor": _kind("tensor", "1"),
    "tensor-accumulate": _kind("tensor", "4"),
    "all-to-all": _kind("all_to_all"),
    "local-sgd": _kind("local_sgd"),
    "pipeline": _kind("pipeline", workers=2),
    "restart": _kind("restart", "restart", uneven=True),
    "crash": _kind("restart", "crash", uneven=True),
}  # for all-reduce jobs; an iteration sends as much as the all-reduce
MODELS = {"resnet50": 25_557_032, "gpt2-small": 124_439_808}  # parameters, of four bytes
_MODEL_KINDS = {NCCL: ("ddp", 1.0), "nccl-fsdp": ("fsdp", 1.5)}  # what they send, in all-reduces of the model


def _model_kinds() -> dict[str, Program]:
    return {
        f"{kind}-{model}": Program(
            "bench.workload.kinds.real_model", (model, sharing), model_mb=reduces * 4e-6 * parameters
        )
        for kind, (sharing, reduces) in _MODEL_KINDS.items()
        for model, parameters in MODELS.items()
    }


ON_GPU = {
    NCCL: _kind("nccl", "host"),
    "nccl-stream": _kind("nccl", "stream"),
    "nccl-ahead": _kind("nccl", "ahead"),
    "nccl-jax": _kind("jax_parallel"),
    **_model_kinds(),
}  # for all-reduce jobs, where there is a GPU
NAMES = (AUTO, SYNTHETIC, PS, *RINGS, *ON_GPU)
_SYNTHETIC, _PS = (Program(f"bench.workload.{name}", plays=(OVERLAP, BURSTS)) for name in (SYNTHETIC, PS))


def program_for(job: JobSpec, workload: str) -> Program:
    """What plays the job."""
    kinds = _kinds(workload)
    kind = kinds.get(job.name, kinds[None])
    if kind == SYNTHETIC:
        return _SYNTHETIC
    is_ring = job.pattern is Pattern.ALLREDUCE
    if kind == AUTO:
        kind = PS if not is_ring else NCCL if job.backend is Backend.NCCL else DDP
    if is_ring == (kind == PS):
        raise WorkloadError(f"workload {kind!r} cannot play job {job.name!r}: its pattern is {job.pattern}")
    program = (RINGS | ON_GPU).get(kind, _PS)
    if program.workers not in (None, len(job.workers)):
        found = len(job.workers)
        raise WorkloadError(f"workload {kind!r} needs {program.workers} workers; job {job.name!r} has {found}")
    for key, asked, value in ((OVERLAP, job.overlap > 0.0, job.overlap), (BURSTS, job.bursts > 1, job.bursts)):
        if asked and key not in program.plays:
            raise WorkloadError(f"workload {kind!r} cannot play job {job.name!r} with {key} = {value}; synthetic can")
    return program


def with_model(workload: str, model: str) -> str:
    """The workload whose jobs over NCCL train this model."""
    parts = []
    for part in workload.split(","):
        job, is_named, kind = part.rpartition("=")
        kind = NCCL if kind.strip() == AUTO else kind.strip()
        if kind not in _MODEL_KINDS:
            raise WorkloadError(f"workload {kind!r} trains no model; {' and '.join(_MODEL_KINDS)} do")
        parts.append(f"{job}{is_named}{kind}-{model}")
    return ",".join(parts)


def with_sizes(scenario: Scenario, workload: str) -> Scenario:
    """The scenario whose jobs are as large as the models that play them."""
    sizes = {job.name: program_for(job, workload).model_mb for job in scenario.jobs}
    jobs = tuple(replace(job, model_mb=sizes[job.name] or job.model_mb) for job in scenario.jobs)
    return replace(scenario, jobs=jobs)


def check_workload(jobs: Iterable[JobSpec], workload: str) -> None:
    """Raises WorkloadError where the workload names a job that is not there, or cannot play one that is."""
    by_name = {job.name: job for job in jobs}
    for name in _kinds(workload):
        if name is not None and name not in by_name:
            raise WorkloadError(f"workload {workload!r} names job {name!r}; the scenario has {', '.join(by_name)}")
    for job in by_name.values():
        program_for(job, workload)


def _kinds(workload: str) -> Mapping[str | None, str]:
    """By job; None stands for the jobs that are not named."""
    kinds: dict[str | None, str] = {None: AUTO}
    for part in workload.split(","):
        job, is_named, kind = (word.strip() for word in part.rpartition("="))
        if not is_named and "," in workload:
            raise WorkloadError(f"workload {workload!r}: expected JOB=KIND at {part.strip()!r}, or one kind for all")
        if kind not in NAMES:
            close = get_close_matches(kind, NAMES, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(NAMES)}"
            raise WorkloadError(f"no workload {kind!r}; {hint}")
        if job in kinds:
            raise WorkloadError(f"workload {workload!r} names job {job!r} twice")
        kinds[job if is_named else None] = kind
    return kinds
