"""A workload drawn from stated distributions, where there is no trace.

    arrivals    Gamma interarrival times of mean `arrival_every_s` and squared coefficient of variation `burstiness`:
                1 is Poisson; public cloud traces arrive in bursts, with 4 and more; 0 is uniform over the whole time
    GPUs        Ada-SRSF §V: 80 jobs of 1, 14 of 2, 26 of 4, 30 of 8, 8 of 16 and 2 of 32 in 160; or the file's mix;
                each job draws, unless `exact_mix`: then exactly these, in any order
    duration    log-normal of median `median_s` and shape `sigma`: half are short, a few last very long; or between two
                numbers of `iterations` with a density of 1/n²: half are shorter than twice the least
    model       one of `models`, each as likely
    pattern     a parameter server with probability `ps_share`, else a ring

A file is TOML; every key has a default.
"""

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from pathlib import Path

from paceline.flowcore.model.fields import (
    Field,
    InputError,
    Value,
    integer,
    list_of,
    number_from,
    number_that,
    read_table,
)
from paceline.flowcore.model.scenario import Pattern
from paceline.sim.all_reduce import exchange_s
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.formats.lines import Lines
from paceline.sim.trace.profiles import Profiles

GPU_MIX = ((1, 80), (2, 14), (4, 26), (8, 30), (16, 8), (32, 2))
MODELS = ("vgg16", "resnet50", "inception3", "lstm")


@dataclass(frozen=True)
class Workload:
    jobs: int = 160
    arrival_every_s: float = 7.5
    burstiness: float = 4.0
    median_s: float = 300.0
    sigma: float = 1.0
    longest_s: float = 86400.0
    iterations: tuple[int, int] | None = None  # least and most; None: by duration
    gpu_mix: tuple[tuple[int, int], ...] = GPU_MIX  # (GPUs, weight)
    exact_mix: bool = False
    models: tuple[str, ...] = MODELS
    ps_share: float = 0.0
    compute_s: float | None = None  # of an iteration, for models whose profile does not say
    compute_scale: float = 1.0  # slower GPUs, or larger batches, than those of the profiles


def _pair(value: Value) -> tuple[int, int]:
    gpus, weight = list_of(integer(0, 10**6), "GPUs and weight", exactly=2)(value)
    if not gpus:
        raise value.wrong("at least one GPU")
    return gpus, weight


def _yes(value: Value) -> bool:
    if isinstance(value.found, bool):
        return value.found
    raise value.wrong("true or false")


def _range(value: Value) -> tuple[int, int]:
    least, most = list_of(integer(1, 10**9), "numbers of iterations", exactly=2)(value)
    if least > most:
        raise value.wrong("the least before the most")
    return least, most


def _model(value: Value) -> str:
    if isinstance(value.found, str):
        return value.found
    raise value.wrong("the name of a model")


FIELDS = {
    "jobs": Field(integer(1, 10**6), Workload.jobs),
    "arrival_every_s": Field(number_from(1e-6, 1e9), Workload.arrival_every_s),
    "burstiness": Field(
        number_that("0 or a number from 0.01 to 100", lambda n: n == 0 or 0.01 <= n <= 100), Workload.burstiness
    ),
    "median_s": Field(number_from(1e-3, 1e9), Workload.median_s),
    "sigma": Field(number_from(0.0, 10.0), Workload.sigma),
    "longest_s": Field(number_from(1.0, 1e9), Workload.longest_s),
    "iterations": Field(_range, Workload.iterations),
    "gpu_mix": Field(list_of(_pair, "[GPUs, weight]"), Workload.gpu_mix),
    "exact_mix": Field(_yes, Workload.exact_mix),
    "models": Field(list_of(_model, "models"), Workload.models),
    "ps_share": Field(number_from(0.0, 1.0), Workload.ps_share),
    "compute_s": Field(number_from(1e-3, 1e3), Workload.compute_s),
    "compute_scale": Field(number_from(0.01, 100.0), Workload.compute_scale),
}


def read(path: Path, profiles: Profiles, seed: int, *, skip_bad: bool) -> Lines[TraceJob]:
    """No line to skip: the file is wrong or right as a whole."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(path), "the file", f"no TOML ({error})", "a workload in TOML") from None
    root = Value(str(path), "", found)
    workload = Workload(**read_table(root, FIELDS))
    for model in workload.models:
        if model not in profiles or not (profiles[model].compute_s or workload.compute_s):
            known = ", ".join(name for name, profile in profiles.items() if profile.compute_s)
            raise InputError(str(path), "models", repr(model), f"models whose compute time is known: {known}")
    return Lines(draw(workload, profiles, seed), 0)


def draw(workload: Workload, profiles: Profiles, seed: int) -> tuple[TraceJob, ...]:
    draws = random.Random(f"{seed}/workload")
    arrivals_s = _arrivals_s(workload, draws)
    demands = _demands(workload, draws)
    jobs = []
    for place in range(workload.jobs):
        arrival_s = next(arrivals_s)
        model = draws.choice(workload.models)
        profile = profiles[model]
        gpus = next(demands)
        compute_s = (profile.compute_s or workload.compute_s or 0.0) * workload.compute_scale
        if workload.iterations:
            least, most = workload.iterations
            iterations = round(1.0 / draws.uniform(1.0 / most, 1.0 / least))
        else:
            duration_s = min(workload.median_s * exp(draws.gauss(0.0, workload.sigma)), workload.longest_s)
            iterations = max(1, round(duration_s / (compute_s + exchange_s(profile.size_mb, gpus))))
        jobs.append(
            TraceJob(
                name=f"j{place}",
                arrival_s=arrival_s,
                gpus=gpus,
                model=model,
                model_mb=profile.size_mb,
                compute_s=compute_s,
                iterations=iterations,
                pattern=Pattern.PS if draws.random() < workload.ps_share else Pattern.ALLREDUCE,
            )
        )
    return tuple(jobs)


def _arrivals_s(workload: Workload, draws: random.Random) -> Iterator[float]:
    if not workload.burstiness:
        longest_s = workload.jobs * workload.arrival_every_s
        yield from sorted(draws.uniform(0.0, longest_s) for _ in range(workload.jobs))
        return
    shape = 1.0 / workload.burstiness  # of the Gamma distribution: CV² = 1/shape
    arrival_s = 0.0
    while True:
        arrival_s += draws.gammavariate(shape, workload.arrival_every_s / shape)
        yield arrival_s


def _demands(workload: Workload, draws: random.Random) -> Iterator[int]:
    gpus, weights = zip(*workload.gpu_mix, strict=True)
    if workload.exact_mix:
        exact = [demand for demand, jobs in workload.gpu_mix for _ in range(jobs)]
        yield from draws.sample(exact * -(-workload.jobs // len(exact)), workload.jobs)
    while True:
        yield from draws.choices(gpus, weights)
