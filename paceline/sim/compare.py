"""Policies against each other on random mixes, and each against fair, which is what jobs get without Paceline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from statistics import fmean

from paceline.sim.mixes import beside_cross_traffic, peak_load, random_mix
from paceline.sim.processes import collecting_seldom, each
from paceline.sim.run import alone_iterations_s, run

YARDSTICK = "fair"


@dataclass(frozen=True, slots=True)
class Series:
    """Which mixes to draw, and what to run on each."""

    seed: int
    kind: str
    duration_s: float
    policies: tuple[str, ...]  # with the yardstick
    array: bool = False  # in the array engine, where it can do what the policy does
    cross_traffic: bool = False


@dataclass(frozen=True, slots=True)
class MixResult:
    number: int
    hosts: int
    load: float  # Σ_i a_il of the busiest link
    capacity_bound: float
    slowdowns: Mapping[str, tuple[float, ...]]  # by policy, in the order of the jobs
    max_link_overload: Mapping[str, float]
    others_bytes: Mapping[str, float]

    def mean_slowdown(self, policy: str) -> float:
        return fmean(self.slowdowns[policy])

    def ratio_to_bound(self, policy: str) -> float:
        return self.mean_slowdown(policy) / self.capacity_bound

    def vs_fair(self, policy: str) -> float:
        return self.mean_slowdown(policy) / self.mean_slowdown(YARDSTICK)

    def others_vs_fair(self, policy: str) -> float | None:
        """What flows of no job get, where there are any."""
        beside_fair = self.others_bytes[YARDSTICK]
        return self.others_bytes[policy] / beside_fair if beside_fair else None

    def worst_job_vs_fair(self, policy: str) -> float:
        """How much the unluckiest job pays for the gain of the other jobs."""
        pairs = zip(self.slowdowns[policy], self.slowdowns[YARDSTICK], strict=True)
        return max(slowdown / fair for slowdown, fair in pairs)


@dataclass(frozen=True, slots=True)
class PolicySummary:
    policy: str
    mean_ratio: float
    worst_ratio: float
    mean_vs_fair: float
    worst_vs_fair: float
    worst_job_vs_fair: float
    max_link_overload: float
    others_vs_fair: float | None = None  # mean
    least_others_vs_fair: float | None = None


def run_mixes(series: Series, count: int, processes: int) -> Iterator[MixResult]:
    """Mixes 0 to count - 1, in order, as they are done."""
    return each(partial(run_mix, series), range(count), processes)


def run_mix(series: Series, number: int) -> MixResult:
    scenario = random_mix(number, series.seed, series.kind, series.duration_s)
    scenario = beside_cross_traffic(scenario) if series.cross_traffic else scenario
    with collecting_seldom():
        alone_s = alone_iterations_s(scenario, series.seed, array=series.array)
        results = {
            policy: run(scenario, policy, series.seed, alone_s=alone_s, array=series.array)
            for policy in series.policies
        }
    return MixResult(
        number=number,
        hosts=len(scenario.topology.hosts),
        load=peak_load(scenario),
        capacity_bound=results[YARDSTICK].bound.mean,
        slowdowns={policy: tuple(job.slowdown for job in result.jobs) for policy, result in results.items()},
        max_link_overload={policy: result.max_link_overload for policy, result in results.items()},
        others_bytes={policy: sum(result.others_bytes) for policy, result in results.items()},
    )


def summarize(policy: str, mixes: Sequence[MixResult]) -> PolicySummary:
    ratios = [mix.ratio_to_bound(policy) for mix in mixes]
    vs_fair = [mix.vs_fair(policy) for mix in mixes]
    others = [found for mix in mixes if (found := mix.others_vs_fair(policy)) is not None]
    return PolicySummary(
        policy=policy,
        mean_ratio=fmean(ratios),
        worst_ratio=max(ratios),
        mean_vs_fair=fmean(vs_fair),
        worst_vs_fair=max(vs_fair),
        worst_job_vs_fair=max(mix.worst_job_vs_fair(policy) for mix in mixes),
        max_link_overload=max(mix.max_link_overload[policy] for mix in mixes),
        others_vs_fair=fmean(others) if others else None,
        least_others_vs_fair=min(others, default=None),
    )


COLUMNS = ("policy", "mean ratio", "worst", "mean vs fair", "worst", "worst job vs fair", "link overload")
OTHERS_COLUMNS = ("others vs fair", "least")


def row(summary: PolicySummary) -> tuple[str, ...]:
    """With the columns of others where there are any."""
    policy, *numbers = astuple(summary)
    return (policy, *(f"{number:.3f}" for number in numbers if number is not None))


def mix_document(mix: MixResult) -> dict[str, object]:
    return {
        "number": mix.number,
        "hosts": mix.hosts,
        "jobs": len(mix.slowdowns[YARDSTICK]),
        "load": mix.load,
        "capacity_bound": mix.capacity_bound,
        "ratios": {policy: mix.ratio_to_bound(policy) for policy in mix.slowdowns},
        "slowdowns": mix.slowdowns,
    }
