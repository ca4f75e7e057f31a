"""Realistic jobs, two at a time: which jobs, in which pairs, where, and what each pair must show.

same    both jobs on h0 and h1: every host sees both
cross   the first on h0 and h2, the second on h1 and h2: they meet on h2's link only, and no other host sees both

Sizes are chosen so that communicating is 30 to 60 % of an iteration alone at 1 Gbit/s. A pair's limit is how far its
mean slowdown may be above the best TCP's; one below zero says how far it must be below.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from paceline.failure import Failure
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

LINK_GBPS = 1.0
HOSTS = {"same": (("h0", "h1"), ("h0", "h1")), "cross": (("h0", "h2"), ("h1", "h2"))}
ALONE = "alone"  # the case of every job by itself
MUST_GAIN, MUST_NOT_LOSE = -5.0, 2.0  # %, against the best TCP


class UnknownCase(Failure):
    """No case has this name; str() is one line."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    workload: str
    model_mb: float
    compute_s: float
    is_twin: bool = False  # the same again under another name

    @property
    def link_s(self) -> float:
        """How long an iteration's bytes take at the link's speed: of two workers, each sends the model's size."""
        return self.model_mb * 8e-3 / LINK_GBPS

    def spec(self, hosts: tuple[str, ...]) -> JobSpec:
        return JobSpec(self.name, Pattern.ALLREDUCE, hosts, (), self.model_mb, self.compute_s, None, 0.0, jitter=0.0)


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


@dataclass(frozen=True, slots=True)
class Pair:
    kinds: str  # FIRST+SECOND
    jobs: tuple[Job, Job]
    placement: str
    limit_percent: float

    @property
    def name(self) -> str:
        return f"{self.kinds}-{self.placement}"

    def scenario(self, duration_s: float) -> Scenario:
        specs = [job.spec(hosts) for job, hosts in zip(self.jobs, HOSTS[self.placement], strict=True)]
        return _scenario(self.name, specs, duration_s)

    @property
    def workload(self) -> str:
        return ",".join(f"{job.name}={job.workload}" for job in self.jobs)


def alone_scenario(job: Job, duration_s: float) -> Scenario:
    return _scenario(f"{job.name} {ALONE}", [job.spec(HOSTS["same"][0])], duration_s)


def _scenario(name: str, specs: Sequence[JobSpec], duration_s: float) -> Scenario:
    hosts = {host for spec in specs for host in spec.workers}
    return Scenario(name, 1, duration_s, SlotsSpec(), star(len(hosts), LINK_GBPS), tuple(specs), ())


def _pairs(first: str, second: str, limit_percent: float) -> list[Pair]:
    other = JOBS[second]
    if first == second:
        other = replace(other, name=f"{second}-2", is_twin=True)
    return [Pair(f"{first}+{second}", (JOBS[first], other), placement, limit_percent) for placement in HOSTS]


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


def chosen_pairs(names: Sequence[str]) -> list[Pair]:
    """Those named, or all: FIRST+SECOND stands for both placements, a placement for all pairs there."""
    chosen = {} if names else PAIRS
    for name in names:
        found = {full: pair for full, pair in PAIRS.items() if name in (full, pair.kinds, pair.placement)}
        if not found and name != ALONE:
            known = dict.fromkeys([*(pair.kinds for pair in PAIRS.values()), *PAIRS, ALONE, *HOSTS])
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "--list says what there is"
            raise UnknownCase(f"no case {name!r}; {hint}")
        chosen = chosen | found
    return list(chosen.values())


def chosen_alone(names: Sequence[str]) -> list[Job]:
    """The jobs that are compared with themselves alone under paceline."""
    return list(JOBS.values()) if not names or ALONE in names else []
