"""The jobs of section VI-A at a size one machine can carry: everything in bytes is divided by 62.5.

    25 Gbit/s NIC       0.4 Gbit/s
    GPT2, 1.2 GB        19.2 MB

so that a burst lasts as long as the paper's. The paper does not give computing times; ours are chosen so that
communicating takes between a tenth (ResNet50) and two thirds (GPT2) of an iteration at 10 Gbit/s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.jobs.shared_cluster import SharedCluster
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

SCALE = 62.5
HOSTS, GPUS_PER_HOST = 6, 2
BATCH = 64  # images or sequences per worker and iteration
OTHERS_EVERY_S, OTHERS_LAST_S = 2.0, (0.2, 2.0)
QUIET = SharedCluster(GPUS_PER_HOST)
WITH_OTHERS = SharedCluster(GPUS_PER_HOST, OTHERS_EVERY_S, OTHERS_LAST_S)


@dataclass(frozen=True, slots=True)
class Model:
    pattern: Pattern
    size_mb: float  # the paper's
    compute_s: float


MODELS = {
    "VGG19": Model(Pattern.ALLREDUCE, 549.0, 0.35),
    "VGG16": Model(Pattern.PS, 528.0, 0.30),
    "ResNet50": Model(Pattern.PS, 98.0, 0.30),
    "GPT2": Model(Pattern.ALLREDUCE, 1200.0, 0.60),
}


def gbps_here(paper_gbps: float) -> float:
    return paper_gbps / SCALE


def job(name: str, model: str, hosts: Sequence[str], iterations: int | None = None, start_s: float = 0.0) -> JobSpec:
    """All-reduce over all `hosts`; a parameter-server job has its workers in the first half."""
    kind, half = MODELS[model], len(hosts) // 2
    ring = kind.pattern is Pattern.ALLREDUCE
    workers, servers = (tuple(hosts), ()) if ring else (tuple(hosts[:half]), tuple(hosts[half:]))
    model_mb = kind.size_mb / SCALE
    return JobSpec(name, kind.pattern, workers, servers, model_mb, kind.compute_s, iterations, start_s, jitter=0.0)


def as_ring(spec: JobSpec) -> JobSpec:
    return replace(spec, pattern=Pattern.ALLREDUCE, workers=spec.workers + spec.servers, servers=())


def queued_job(name: str, model: str, iterations: int | None = None, start_s: float = 0.0) -> JobSpec:
    """Three workers, or two and two servers; where they are is decided when there are GPUs for them."""
    hosts = 3 if MODELS[model].pattern is Pattern.ALLREDUCE else 4
    return job(name, model, host_names()[:hosts], iterations, start_s)


def cluster(
    name: str,
    paper_gbps: float,
    jobs: Sequence[JobSpec],
    *,
    hosts: int = HOSTS,
    duration_s: float | None = None,
    slot_ms: float = 60.0,
    cross_traffic: Sequence[CrossTraffic] = (),
) -> Scenario:
    topology = star(hosts, gbps_here(paper_gbps))
    return Scenario(name, 1, duration_s, SlotsSpec(length_ms=slot_ms), topology, tuple(jobs), tuple(cross_traffic))


def host_names(hosts: int = HOSTS) -> tuple[str, ...]:
    return star(hosts, 1.0).hosts


def sped_up(scenario: Scenario, duration_s: float | None, times: float = 4.0) -> Scenario:
    """For --quick: computing and sending take a fraction of the time."""
    jobs = tuple(
        replace(spec, model_mb=spec.model_mb / times, compute_s=spec.compute_s / times, start_s=spec.start_s / times)
        for spec in scenario.jobs
    )
    return replace(scenario, jobs=jobs, duration_s=duration_s)
