"""Which runs a comparison of controls is made of, and in which order.

The machine drifts, so every repeat runs all controls, in an order that turns from repeat to repeat, and each job
alone. A job alone runs without control (under cubic), without loss and without marks: the same yardstick for all
controls. Only where the runs together send packets one by one a job alone does, too, because that costs by itself.
Where computing times are drawn, or iterations differ by themselves, a job alone runs for longer: all repeats have the
same draws, so that a few unusual ones would never average out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.jobs.control import Control
from bench.jobs.run import Conditions
from bench.jobs.tcp_control import ALONE_CONTROL, TcpControl
from bench.testbed.impair import Impairment
from bench.workload.choice import program_for
from paceline.flowcore.model.scenario import JobSpec, Scenario
from paceline.sim.run import alone_iterations_s

ALONE_ITERATIONS = 10  # three to warm up, seven to count
ALONE_WITH_JITTER_S = 20.0
STARTUP_S = 1.5  # until all processes are ready; a guess, for the time left


@dataclass(frozen=True, slots=True)
class PlannedRun:
    control: Control
    scenario: Scenario
    conditions: Conditions
    alone: str | None  # the job, where it runs alone
    estimate_s: float


def plan(scenario: Scenario, controls: Sequence[Control], conditions: Conditions, repeats: int) -> list[PlannedRun]:
    few = tuple(replace(job, iterations=ALONE_ITERATIONS) for job in scenario.jobs)
    predicted_s = alone_iterations_s(replace(scenario, jobs=few, duration_s=None), scenario.seed)
    longest_s = max(spec.start_s + (spec.iterations or 0) * predicted_s[spec.name] for spec in scenario.jobs)
    together_s = STARTUP_S + (longest_s * 1.5 if scenario.duration_s is None else scenario.duration_s)
    unimpaired = replace(conditions, impairment=Impairment(single_packets=conditions.impairment.one_by_one))
    planned: list[PlannedRun] = []
    for repeat in range(repeats):
        for spec in scenario.jobs:
            iterations = _alone_iterations(spec, predicted_s[spec.name], program_for(spec, conditions.workload).uneven)
            job = replace(spec, start_s=0.0, iterations=iterations)
            solo = replace(scenario, jobs=(job,), cross_traffic=(), duration_s=None)
            estimate_s = STARTUP_S + iterations * predicted_s[spec.name]
            planned.append(PlannedRun(TcpControl(ALONE_CONTROL), solo, unimpaired, spec.name, estimate_s))
        first = repeat % len(controls)
        turned = [*controls[first:], *controls[:first]]
        planned += (PlannedRun(control, scenario, conditions, None, together_s) for control in turned)
    return planned


def _alone_iterations(spec: JobSpec, predicted_s: float, is_uneven: bool) -> int:
    many = max(ALONE_ITERATIONS, round(ALONE_WITH_JITTER_S / predicted_s))
    wanted = many if spec.jitter or is_uneven else ALONE_ITERATIONS
    return min(wanted, spec.iterations or wanted)
