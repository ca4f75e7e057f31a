"""What a suite of realistic jobs is: jobs, pairs of them, where they run, and what each pair must show.

same    both jobs on h0 and h1: every host sees both
cross   the first on h0 and h2, the second on h1 and h2: they meet on h2's link only, and no other host sees both

A pair has one limit: on its mean slowdown, or on how far that may be above the best TCP's (below zero: must be below).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from paceline.failure import Failure
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

HOSTS = {"same": (("h0", "h1"), ("h0", "h1")), "cross": (("h0", "h2"), ("h1", "h2"))}
ALONE = "alone"  # the case of every job by itself
SIDE_BY_SIDE_GBPS = 1.0  # the fastest link of runs that are made at the same time


class UnknownCase(Failure):
    """No case has this name; str() is one line."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    workload: str
    model_mb: float
    compute_s: float
    link_gbps: float = 1.0
    same_as: str | None = None  # the job that does exactly the same: its runs alone are this job's, too

    @property
    def link_s(self) -> float:
        """How long an iteration's bytes take at the link's speed: of two workers, each sends the model's size."""
        return self.model_mb * 8e-3 / self.link_gbps

    @property
    def side_by_side(self) -> bool:
        """Whether its runs leave others that are made at the same time enough of the machine."""
        return self.link_gbps <= SIDE_BY_SIDE_GBPS

    @property
    def measured_alone(self) -> str:
        return self.same_as or self.name

    def spec(self, hosts: tuple[str, ...]) -> JobSpec:
        return JobSpec(self.name, Pattern.ALLREDUCE, hosts, (), self.model_mb, self.compute_s, None, 0.0, jitter=0.0)

    def alone_scenario(self, duration_s: float) -> Scenario:
        return _scenario(f"{self.name} {ALONE}", [self.spec(HOSTS["same"][0])], self.link_gbps, duration_s)


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    group: str  # by which several pairs are chosen at once
    jobs: tuple[Job, Job]
    placement: str
    limit_percent: float | None = None
    limit_slowdown: float | None = None

    def scenario(self, duration_s: float) -> Scenario:
        specs = [job.spec(hosts) for job, hosts in zip(self.jobs, HOSTS[self.placement], strict=True)]
        return _scenario(self.name, specs, self.jobs[0].link_gbps, duration_s)

    @property
    def workload(self) -> str:
        return ",".join(f"{job.name}={job.workload}" for job in self.jobs)

    @property
    def limit(self) -> str:
        return f"{self.limit_percent:+g} %" if self.limit_percent is not None else f"{self.limit_slowdown:g}"


def _scenario(name: str, specs: Sequence[JobSpec], link_gbps: float, duration_s: float) -> Scenario:
    hosts = {host for spec in specs for host in spec.workers}
    return Scenario(name, 1, duration_s, SlotsSpec(), star(len(hosts), link_gbps), tuple(specs), ())


class Suite:
    def __init__(
        self, jobs: Iterable[Job], pairs: Iterable[Pair], quick: tuple[str, ...], duration_s: float, quick_s: float
    ) -> None:
        """`quick` are the cases of a short look, `duration_s` and `quick_s` what a run lasts."""
        self.jobs, self.pairs = {job.name: job for job in jobs}, {pair.name: pair for pair in pairs}
        self.quick, self.duration_s, self.quick_s = quick, duration_s, quick_s

    def chosen_pairs(self, names: Sequence[str]) -> list[Pair]:
        """Those named, or all: a group's name stands for all pairs in it, a placement for all pairs there."""
        chosen = {} if names else self.pairs
        for name in names:
            found = {full: pair for full, pair in self.pairs.items() if name in (full, pair.group, pair.placement)}
            if not found and name != ALONE:
                groups = (pair.group for pair in self.pairs.values())
                close = get_close_matches(name, dict.fromkeys([*groups, *self.pairs, ALONE, *HOSTS]), n=1)
                hint = f"did you mean {close[0]!r}?" if close else "--list says what there is"
                raise UnknownCase(f"no case {name!r}; {hint}")
            chosen = chosen | found
        return list(chosen.values())

    def chosen_alone(self, names: Sequence[str]) -> list[Job]:
        """The jobs that are compared with themselves alone under paceline."""
        return list(self.jobs.values()) if not names or ALONE in names else []
