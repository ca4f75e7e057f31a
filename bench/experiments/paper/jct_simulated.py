"""Fig. 8 in the simulator, over many draws of the arrivals: jct.py's jobs, hosts and GPU queue, nothing else sending.

A run on the testbed takes minutes and is one draw. Jobs that wait for GPUs hand every second that one loses or gains on
to those behind it, and another order of arrivals favours another control: single draws differ by more than what is
looked for. `fair`, links shared evenly, stands for TCP; each policy is compared with it on the same draw.

The array engine's switches keep no ledger (docs/traces.md), so `paceline:jct` is held back less than it is live.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, change, percent, spread
from bench.experiments.paper.jct import ITERATIONS, JOBS, PAPER_GBPS, QUIET_CASE, arrivals
from bench.experiments.paper_jobs import GPUS_PER_HOST
from bench.jobs.gpu_queue import GpuQueue
from bench.jobs.report import Estimate
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import JobSpec, Scenario
from paceline.flowcore.model.units import NS_PER_S, ns_from_s
from paceline.sim.array.engine import ArraySimulation
from paceline.sim.jobs import TrainingJob

FAIR, OURS = "fair", ("paceline", "paceline:jct")
POLICIES = (FAIR, "mltcp", *OURS)
STEP_MS = 5.0
STARTING_S = 1.2  # a job's processes, once it has its GPUs: as on the testbed
DRAWS, QUICK_JOBS = 32, 8


class QueuedSimulation:
    """Jobs that wait for GPUs as on the testbed."""

    def __init__(self, scenario: Scenario, policy: str, seed: int) -> None:
        self._queue, self._seed = GpuQueue(scenario.topology.hosts, GPUS_PER_HOST, seed), seed
        clock = scenario.slots.clock()
        self._network = ArraySimulation(scenario.topology, clock, policy, step_ms=STEP_MS, finished=self._finished)
        self._specs = scenario.jobs
        self.ended_s: dict[str, float] = {}

    def run(self) -> list[float]:
        """Every job's completion time, from its arrival on."""
        for spec in self._specs:
            self._network.at(ns_from_s(spec.start_s), partial(self._arrive, spec))
        while len(self.ended_s) < len(self._specs):
            self._network.run(self._network.now_ns + 10 * NS_PER_S)
        return [self.ended_s[spec.name] - spec.start_s for spec in self._specs]

    def _arrive(self, spec: JobSpec) -> None:
        self._queue.arrive(spec)
        self._start_those_with_gpus()

    def _finished(self, job: TrainingJob) -> None:
        self.ended_s[job.spec.name] = self._network.now_ns / NS_PER_S
        self._queue.end(job.spec.name)
        self._start_those_with_gpus()

    def _start_those_with_gpus(self) -> None:
        while (spec := self._queue.start_next()) is not None:
            start = partial(self._network.start, TrainingJob(spec, self._seed))
            self._network.at(self._network.now_ns + ns_from_s(STARTING_S), start)


def run(options: Options) -> Result:
    bandwidths = PAPER_GBPS[-1:] if options.quick else PAPER_GBPS
    rows, checks = [], []
    for number, gbps in enumerate(bandwidths):
        means_s = _means_s(gbps, options, number / len(bandwidths), 1 / len(bandwidths))
        rows += [_row(gbps, policy, means_s) for policy in POLICIES]
        [promised] = QUIET_CASE.gains[gbps].values()
        gains = {row["policy"]: 1 - row["against_fair"] for row in rows if row["gbps"] == gbps}
        claim = f"{gbps:g} Gbit/s: mean JCT at least {percent(promised, 0)} below fair sharing's, with either objective"
        best = max(OURS, key=gains.__getitem__)
        checks.append(Check(claim, f"{percent(gains[best])} ({best})", gains[best] >= promised))
    return {"draws": options.repeats, "rows": rows, "checks": as_json(checks)}


def _means_s(gbps: float, options: Options, done: float, part: float) -> dict[str, list[float]]:
    """By policy, each draw's mean job completion time."""
    found: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for draw in range(options.repeats):
        drawn = replace(options, quick=False, seed=options.seed + draw)
        scenario = arrivals(gbps, drawn, QUICK_JOBS if options.quick else JOBS, stretch=QUIET_CASE.stretch)
        for policy in POLICIES:
            options.progress(f"{gbps:g} Gbit/s, draw {draw + 1}, {policy}", done + part * draw / options.repeats)
            found[policy].append(fmean(QueuedSimulation(scenario, policy, drawn.seed).run()))
    return found


def _row(gbps: float, policy: str, means_s: dict[str, list[float]]) -> Result:
    own = means_s[policy]
    ratios = [one / fair for one, fair in zip(own, means_s[FAIR], strict=True)]
    ratio = Estimate.of(ratios)
    return {
        "gbps": gbps,
        "policy": policy,
        "mean_jct_s": fmean(own),
        "against_fair": ratio.mean,
        "half_width": ratio.half_width,
        "least": min(ratios),
        "most": max(ratios),
        "below_fair": sum(one < 1.0 for one in ratios),
    }


def present(result: Result) -> Sequence[Part]:
    rows, draws = result["rows"], result["draws"]
    bandwidths = list(dict.fromkeys(row["gbps"] for row in rows))
    bars = {
        policy: [(row["against_fair"], row["half_width"]) for row in rows if row["policy"] == policy]
        for policy in POLICIES
    }
    lines = [
        (
            f"{row['gbps']:g} Gbit/s, {row['policy']}",
            f"{row['mean_jct_s']:.1f}",
            spread(row["against_fair"], row["half_width"]),
            change(row["against_fair"]),
            f"{change(row['least'])} … {change(row['most'])}",
            f"{row['below_fair']} of {draws}",
        )
        for row in rows
    ]
    columns = ("", "mean JCT, s", "÷ fair, mean of the draws", "", "draws", "draws below fair")
    return [
        Bars("Mean JCT ÷ that under fair sharing", "", [f"{gbps:g} Gbit/s" for gbps in bandwidths], bars, line=1.0),
        Table(f"Job completion time over {draws} draws, simulated", columns, lines),
    ]


EXPERIMENT = Experiment(
    name="jct-simulated",
    figure="Fig. 8",
    shows="how soon the jobs of jct finish in the simulator, over many draws of their arrivals",
    run=run,
    present=present,
    repeats=DRAWS,
    controls=(),
    differs=f"{JOBS} jobs of {ITERATIONS[0]} to {ITERATIONS[1]} iterations on a fluid network without other traffic; a "
    "repeat is another draw.",
)
