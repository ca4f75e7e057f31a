"""Realistic jobs over gloo, two at a time: which jobs, in which pairs, and what each pair must show.

Sizes are chosen so that communicating is 30 to 60 % of an iteration alone at 1 Gbit/s.
"""

from dataclasses import replace

from bench.experiments.acceptance.job_suite import HOSTS, Job, Pair, Suite

MUST_GAIN, MUST_NOT_LOSE = -5.0, 2.0  # %, against the best TCP

JOBS = {
    job.name: job
    for job in (
        Job("plain", "ddp", 25.0, 0.25),
        Job("large", "ddp", 100.0, 0.6),
        Job("overlap", "overlap", 35.0, 0.5),
        Job("light", "overlap", 28.0, 0.5),
        Job("fsdp", "fsdp", 40.0, 0.45),
        Job("accumulate", "accumulate", 40.0, 0.45),
        Job("checkpoint", "checkpoint", 40.0, 0.4),
        Job("long-tail", "long-tail", 30.0, 0.3),
        Job("varied", "varied", 40.0, 0.4),
        Job("tensor", "tensor", 16.0, 0.2),
        Job("tensor-accumulate", "tensor-accumulate", 24.0, 0.3),
        Job("all-to-all", "all-to-all", 16.0, 0.25),
        Job("local-sgd", "local-sgd", 60.0, 0.8),
        Job("pipeline", "pipeline", 24.0, 0.3),
        Job("restart", "restart", 25.0, 0.25),
        Job("crash", "crash", 25.0, 0.25),
    )
}


def _pairs(first: str, second: str, limit_percent: float) -> list[Pair]:
    other = JOBS[second]
    if first == second:
        other = replace(other, name=f"{second}-2")
    group, jobs = f"{first}+{second}", (JOBS[first], other)
    return [Pair(f"{group}-{placement}", group, jobs, placement, limit_percent) for placement in HOSTS]


PAIRS = {
    pair.name: pair
    for pair in (
        *_pairs("plain", "large", MUST_NOT_LOSE),
        *_pairs("overlap", "overlap", MUST_GAIN),
        *_pairs("overlap", "plain", MUST_GAIN),
        *_pairs("light", "light", MUST_GAIN),
        *_pairs("fsdp", "fsdp", MUST_NOT_LOSE),
        *_pairs("fsdp", "plain", MUST_NOT_LOSE),
        *_pairs("accumulate", "plain", MUST_NOT_LOSE),
        *_pairs("checkpoint", "plain", MUST_NOT_LOSE),
        *_pairs("long-tail", "plain", MUST_NOT_LOSE),
        *_pairs("varied", "varied", MUST_NOT_LOSE),
        *_pairs("tensor", "tensor", MUST_NOT_LOSE),
        *_pairs("tensor", "plain", MUST_NOT_LOSE),
        *_pairs("tensor-accumulate", "plain", MUST_NOT_LOSE),
        *_pairs("all-to-all", "plain", MUST_NOT_LOSE),
        *_pairs("local-sgd", "plain", MUST_NOT_LOSE),
        *_pairs("pipeline", "plain", MUST_NOT_LOSE),
        *_pairs("restart", "plain", MUST_NOT_LOSE),
        *_pairs("crash", "plain", MUST_NOT_LOSE),
    )
}
QUICK = ("overlap+plain-same", "fsdp+plain-cross")
SUITE = Suite(JOBS.values(), PAIRS.values(), QUICK, duration_s=20.0, quick_s=4.0)
