"""Jobs over NCCL on one GPU, two at a time on the same hosts, and what each pair must show.

Jobs of layers send 25 MB for each Gbit/s of their link and compute a quarter of a second: 45 % of an iteration is
communication. ResNet-50 and GPT-2 small are as large as they are, and their links so fast that a run has enough
iterations; with buckets that travel while layers compute, communication is 40 to 50 % of an iteration alone.
"""

from collections.abc import Iterator
from dataclasses import replace

from bench.experiments.acceptance.job_suite import Job, Pair, Suite
from bench.workload.choice import ON_GPU

MUST_GAIN, MUST_NOT_LOSE = -5.0, 1.0  # %, against the best TCP
IDENTICAL_SLOWDOWN, STREAM_SLOWDOWN, UNLIKE_SLOWDOWN = 1.05, 1.06, 1.12


def _model(name: str, workload: str, compute_s: float, link_gbps: float) -> Job:
    size_mb = ON_GPU[workload].model_mb
    assert size_mb is not None
    return Job(name, workload, size_mb, compute_s, link_gbps)


JOBS = {
    job.name: job
    for job in (
        *(Job(f"layers-{gbps:g}g", "nccl", 25.0 * gbps, 0.25, gbps) for gbps in (1.0, 5.0, 10.0)),
        Job("small-1g", "nccl", 15.0, 0.2),
        Job("large-1g", "nccl", 45.0, 0.45),
        Job("stream-1g", "nccl-stream", 25.0, 0.25),
        Job("ahead-1g", "nccl-ahead", 25.0, 0.25),
        Job("jax-1g", "nccl-jax", 25.0, 0.25),
        _model("resnet50-5g", "nccl-resnet50", 0.32, 5.0),
        _model("gpt2-small-10g", "nccl-gpt2-small", 0.75, 10.0),
        _model("fsdp-10g", "nccl-fsdp-gpt2-small", 0.8, 10.0),
    )
}


def _twice(name: str, group: str, limit_percent: float | None = None, limit_slowdown: float | None = None) -> Pair:
    job = JOBS[name]
    twin = replace(job, name=f"{name}-2", same_as=name)
    return Pair(f"{group}-{name}", group, (job, twin), "same", limit_percent, limit_slowdown)


def _pairs() -> Iterator[Pair]:
    for gbps in (1, 5, 10):
        yield _twice(f"layers-{gbps}g", "identical", limit_slowdown=IDENTICAL_SLOWDOWN)
    unlike = JOBS["small-1g"], JOBS["large-1g"]
    yield Pair("unlike-1g", "unlike", unlike, "same", limit_slowdown=UNLIKE_SLOWDOWN)
    for name in ("stream-1g", "ahead-1g"):
        yield _twice(name, "launched", limit_slowdown=STREAM_SLOWDOWN)
    yield _twice("jax-1g", "unmarked", limit_slowdown=STREAM_SLOWDOWN)
    yield _twice("resnet50-5g", "models", MUST_GAIN)
    yield _twice("gpt2-small-10g", "models", MUST_GAIN)
    yield _twice("fsdp-10g", "models", MUST_NOT_LOSE)


QUICK = ("identical-layers-1g",)
SUITE = Suite(JOBS.values(), _pairs(), QUICK, duration_s=10.0, quick_s=4.0)
