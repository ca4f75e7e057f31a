"""Several controls on one scenario, repeatedly, with each job alone for comparison.

The machine drifts, so every repeat runs all controls, in an order that turns from repeat to repeat, and each job
alone. Alone is measured without control (cubic): it is the same yardstick for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from bench.jobs_control import ALONE_CONTROL, Control, TcpControl
from bench.jobs_run import Run, run_once
from flowcore.bound import CapacityBound, capacity_bound
from flowcore.scenario import Scenario
from sim.run import alone_iterations_s, link_shares, mean_iteration_s

ALONE_ITERATIONS = 10  # three to warm up, seven to count
STARTUP_S = {"synthetic": 1.0}  # processes until they are ready; a guess, for the time left
TORCH_STARTUP_S = 8.0

Progress = Callable[[str, float], None]  # what is being done, and how many seconds of the estimate it is worth


@dataclass(frozen=True, slots=True)
class Planned:
    """A run to be made."""

    control: Control
    scenario: Scenario
    alone: str | None  # the job, where it is alone
    estimate_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    scenario: Scenario
    workload: str
    seed: int
    alone_s: Mapping[str, float]  # mean over the repeats
    bound: CapacityBound
    runs: Mapping[str, Sequence[Run]]  # by control, in the order of the repeats


def plan(scenario: Scenario, controls: Sequence[Control], repeats: int, workload: str) -> list[Planned]:
    predicted_s = alone_iterations_s(scenario, scenario.seed)
    startup_s = STARTUP_S.get(workload, TORCH_STARTUP_S)
    longest_s = max(spec.start_s + (spec.iterations or 0) * predicted_s[spec.name] for spec in scenario.jobs)
    together_s = startup_s + (longest_s * 1.5 if scenario.duration_s is None else scenario.duration_s)
    planned: list[Planned] = []
    for repeat in range(repeats):
        for spec in scenario.jobs:
            iterations = min(ALONE_ITERATIONS, spec.iterations or ALONE_ITERATIONS)
            job = replace(spec, start_s=0.0, iterations=iterations)
            solo = replace(scenario, jobs=(job,), cross_traffic=(), duration_s=None)
            estimate_s = startup_s + iterations * predicted_s[spec.name]
            planned.append(Planned(TcpControl(ALONE_CONTROL), solo, spec.name, estimate_s))
        first = repeat % len(controls)
        turned = [*controls[first:], *controls[:first]]
        planned += (Planned(control, scenario, None, together_s) for control in turned)
    return planned


def measure(
    scenario: Scenario, controls: Sequence[Control], repeats: int, workload: str, seed: int, progress: Progress
) -> Measurement:
    alone: dict[str, list[float]] = {spec.name: [] for spec in scenario.jobs}
    runs: dict[str, list[Run]] = {control.name: [] for control in controls}
    for planned, run in _each_run(plan(scenario, controls, repeats, workload), workload, seed, progress):
        if planned.alone is None:
            runs[planned.control.name].append(run)
        else:
            alone[planned.alone].append(mean_iteration_s(run.jobs[0], run.lasted_ns))
    alone_s = {name: fmean(times) for name, times in alone.items()}
    bound = capacity_bound([link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs])
    return Measurement(scenario, workload, seed, alone_s, bound, runs)


def _each_run(
    planned: Sequence[Planned], workload: str, seed: int, progress: Progress
) -> Iterator[tuple[Planned, Run]]:
    for number, each in enumerate(planned, start=1):
        what = f"{each.control.name}" if each.alone is None else f"{each.alone} alone"
        doing = f"run {number} of {len(planned)}: {what}"
        progress(doing, 0.0)
        yield each, run_once(each.scenario, each.control, workload, seed, lambda: None)
        progress(doing, each.estimate_s)
