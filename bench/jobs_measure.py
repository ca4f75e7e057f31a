"""Several controls on one scenario, repeatedly, with each job alone for comparison.

The machine drifts, so every repeat runs all controls, in an order that turns from repeat to repeat, and each job
alone. Alone is measured without control (cubic) and without loss: it is the same yardstick for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from time import monotonic

from bench.jobs_control import ALONE_CONTROL, Control, TcpControl
from bench.jobs_launch import modules_for, nursery_environment
from bench.jobs_nursery import Nursery
from bench.jobs_run import Conditions, Run, run_once
from bench.testbed.impair import UNIMPAIRED
from flowcore.bound import CapacityBound, capacity_bound
from flowcore.scenario import Scenario
from sim.run import alone_iterations_s, link_shares, mean_iteration_s

ALONE_ITERATIONS = 10  # three to warm up, seven to count
STARTUP_S = 1.5  # until all processes are ready; a guess, for the time left

Progress = Callable[[str, float], None]  # what is being done, and how many seconds of the estimate are done


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
    conditions: Conditions
    alone_s: Mapping[str, float]  # mean over the repeats
    bound: CapacityBound
    runs: Mapping[str, Sequence[Run]]  # by control, in the order of the repeats


def plan(scenario: Scenario, controls: Sequence[Control], repeats: int) -> list[Planned]:
    few = tuple(replace(job, iterations=ALONE_ITERATIONS) for job in scenario.jobs)
    predicted_s = alone_iterations_s(replace(scenario, jobs=few, duration_s=None), scenario.seed)
    longest_s = max(spec.start_s + (spec.iterations or 0) * predicted_s[spec.name] for spec in scenario.jobs)
    together_s = STARTUP_S + (longest_s * 1.5 if scenario.duration_s is None else scenario.duration_s)
    planned: list[Planned] = []
    for repeat in range(repeats):
        for spec in scenario.jobs:
            iterations = min(ALONE_ITERATIONS, spec.iterations or ALONE_ITERATIONS)
            job = replace(spec, start_s=0.0, iterations=iterations)
            solo = replace(scenario, jobs=(job,), cross_traffic=(), duration_s=None)
            estimate_s = STARTUP_S + iterations * predicted_s[spec.name]
            planned.append(Planned(TcpControl(ALONE_CONTROL), solo, spec.name, estimate_s))
        first = repeat % len(controls)
        turned = [*controls[first:], *controls[:first]]
        planned += (Planned(control, scenario, None, together_s) for control in turned)
    return planned


def measure(
    scenario: Scenario, controls: Sequence[Control], repeats: int, conditions: Conditions, progress: Progress
) -> Measurement:
    alone: dict[str, list[float]] = {spec.name: [] for spec in scenario.jobs}
    runs: dict[str, list[Run]] = {control.name: [] for control in controls}
    runs_to_make = plan(scenario, controls, repeats)
    done_s = 0.0
    with Nursery(modules_for(scenario, conditions.workload), nursery_environment()) as nursery:
        for number, planned in enumerate(runs_to_make, start=1):
            what = planned.control.name if planned.alone is None else f"{planned.alone} alone"
            doing = f"run {number} of {len(runs_to_make)}: {what}"
            began_s = monotonic()

            def tick() -> None:
                progress(doing, done_s + min(planned.estimate_s, monotonic() - began_s))  # noqa: B023 - called at once

            tick()
            under = conditions if planned.alone is None else replace(conditions, impairment=UNIMPAIRED)
            run = run_once(planned.scenario, planned.control, under, nursery, tick)
            done_s += planned.estimate_s
            if planned.alone is None:
                runs[planned.control.name].append(run)
            else:
                alone[planned.alone].append(mean_iteration_s(run.jobs[0], run.lasted_ns))
    alone_s = {name: fmean(times) for name, times in alone.items()}
    bound = capacity_bound([link_shares(job, scenario, alone_s[job.name]) for job in scenario.jobs])
    return Measurement(scenario, conditions, alone_s, bound, runs)
