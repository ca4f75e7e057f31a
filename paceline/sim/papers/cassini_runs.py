"""The runs of CASSINI's section 5, `TRACE/PLACEMENT/POLICY`, on the array engine, every iteration simulated.

poisson, dynamic, two-gpus    jobs of the paper's models on its cluster; policy `dedicated`: each job alone on it,
                              which no schedule can beat
steady                        dynamic, with jobs that do not jitter: their times have no slack
snapshot-2, snapshot-3        ours: so many like jobs on one link, whose exchanges fit into an iteration with a tenth
                              of it left over; placement `one-link`

A placement with -sum after +cassini ranks candidates by what does not fit on all links together, not by links' mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from random import Random
from statistics import fmean

from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import Topology, clos, star
from paceline.sim.array.engine import ArraySimulation, run_scenario
from paceline.sim.array.gating import Shifted
from paceline.sim.papers.panel import distribution
from paceline.sim.papers.results import Row
from paceline.sim.run import percentile, steady_times_s
from paceline.sim.trace import results as trace_results
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.sampled import SampledEngine

GBPS = 50.0
MODELS_MB = {  # Table 3, data parallel
    "vgg11": 507.0,
    "vgg16": 528.0,
    "vgg19": 549.0,
    "wideresnet101": 243.0,
    "resnet50": 98.0,
    "bert": 450.0,
    "roberta": 800.0,
    "camembert": 266.0,
    "xlm": 1116.0,
}
ITERATION_S = (0.15, 0.5)
ITERATIONS = (200, 1000)
WORKERS = (1, 12)
LOADS = (0.8, 0.9, 1.0)  # one seed after the other
JOBS, QUICK_JOBS = 24, 12
JITTER = 0.01
STEP_MS = 2.0
RESTORE_S = 10.0
DYNAMIC_S = 60.0  # when the second half of the dynamic trace comes
CUT = 3  # of iterations, if quick

# Servers a ToR, ToRs, GPUs a server
TRACES = {"poisson": (2, 12, 1), "dynamic": (2, 12, 1), "two-gpus": (2, 3, 2), "steady": (2, 12, 1)}
BY_SUM = "-sum"
SNAPSHOT = "snapshot-"
FILLED = {"one-link": 0.9, "crowded": 1.04}  # of an iteration, by the exchanges of a snapshot's jobs together


def exchange_s(model_mb: float, workers: int) -> float:
    """A ring's, alone."""
    return 2.0 * (workers - 1) / workers * model_mb * 8e6 / (GBPS * 1e9)


def draw(trace: str, seed: int, quick: bool) -> list[TraceJob]:
    draws = Random(f"{seed}/cassini")
    jobs = []
    for number in range(QUICK_JOBS if quick else JOBS):
        workers, model = draws.randint(*WORKERS), draws.choice(list(MODELS_MB))
        iteration_s = draws.uniform(*ITERATION_S)
        # An exchange may be longer than the iteration that was drawn; a fifth of it is computing in any case.
        compute_s = max(iteration_s - exchange_s(MODELS_MB[model], workers), 0.2 * iteration_s)
        iterations = draws.randint(*ITERATIONS) // (CUT if quick else 1)
        jobs.append(TraceJob(f"j{number}", 0.0, workers, model, MODELS_MB[model], compute_s, iterations))
    load = LOADS[seed % len(LOADS)]
    return [replace(job, arrival_s=at_s) for job, at_s in zip(jobs, _arrivals_s(trace, jobs, load, draws), strict=True)]


def _arrivals_s(trace: str, jobs: Sequence[TraceJob], load: float, draws: Random) -> Iterator[float]:
    if trace != "poisson":
        yield from (0.0 if place < len(jobs) // 2 else DYNAMIC_S for place in range(len(jobs)))
        return
    alone_s = fmean(job.gpus * job.iterations * (job.compute_s + exchange_s(job.model_mb, job.gpus)) for job in jobs)
    servers, tors, gpus = TRACES[trace]
    at_s = 0.0
    for _ in jobs:
        at_s += draws.expovariate(load * servers * tors * gpus / alone_s)
        yield at_s


def perform(run: str, seed: int, quick: bool) -> Row:
    trace, placement, policy = run.split("/")
    if trace.startswith(SNAPSHOT):
        return _snapshot(int(trace.removeprefix(SNAPSHOT)), FILLED[placement], policy, seed, quick)
    jobs = draw(trace, seed, quick)
    if policy == "dedicated":
        return _dedicated(trace, jobs, placement, seed)
    simulated = _simulated(trace, jobs, placement, policy, seed)
    row, engine = trace_results.row(simulated, 0.0), simulated.engine
    assert isinstance(engine, SampledEngine)
    times_s = [time_s for of_job in engine.iterations_s.values() for time_s in of_job]
    return (
        {"mean_s": row["iteration"]["mean_s"], "p99_s": row["iteration"]["p99_s"], "mean_jct_s": row["mean_jct_s"]}
        | {"moves": float(row["preemptions"])}
        | {"job_minutes": sum(job.end_s - job.start_s for job in simulated.records.values()) / 60.0}
        | _adjustments(engine.array)
        | distribution(times_s)
    )


def _adjustments(simulation: ArraySimulation) -> Row:
    gating = simulation.gating
    if not isinstance(gating, Shifted):
        return {}
    minutes = gating.timed_ns / 60e9
    return {"timed_job_minutes": minutes, "adjustments_per_minute": gating.adjustments / minutes if minutes else 0.0}


def _topology(trace: str) -> tuple[Topology, int]:
    """2:1 oversubscribed: two servers share one uplink as fast as their own links."""
    servers, tors, gpus = TRACES[trace]
    return clos(servers, tors, 1, (GBPS, GBPS)), gpus


def _simulated(trace: str, jobs: Sequence[TraceJob], placement: str, policy: str, seed: int) -> TraceRun:
    topology, gpus = _topology(trace)
    options = TraceOptions(
        servers=len(topology.hosts),
        gpus_per_server=gpus,
        placement=placement.removesuffix(BY_SUM),
        rank_by_sum=placement.endswith(BY_SUM),
        policy=policy,
        seed=seed,
        jitter=0.0 if trace == "steady" else JITTER,
        sample_s=inf,
        step_ms=STEP_MS,
        round_s=60.0,
        restore_s=RESTORE_S,
    )
    simulated = TraceRun(topology, options)
    simulated.run([job for job in jobs if job.gpus <= len(topology.hosts) * gpus])
    return simulated


def _dedicated(trace: str, jobs: Sequence[TraceJob], placement: str, seed: int) -> Row:
    """Twenty iterations of each job by itself, as often as it has iterations."""
    times_s: list[float] = []
    jcts_s = []
    for job in jobs:
        row = trace_results.row(_simulated(trace, [replace(job, iterations=20)], placement, "fair", seed), 0.0)
        jcts_s.append(job.iterations * row["mean_jct_s"] / 20)
        if row["iteration"]["mean_s"]:
            times_s += [row["iteration"]["mean_s"]] * job.iterations
    found = {"mean_s": fmean(times_s), "p99_s": percentile(times_s, 99), "mean_jct_s": fmean(jcts_s)}
    return found | distribution(times_s)


def _snapshot(count: int, filled: float, policy: str, seed: int, quick: bool) -> Row:
    draws = Random(f"{seed}/snapshot")
    model_mb = MODELS_MB["vgg16"]
    sends_s = exchange_s(model_mb, 2)
    iteration_s = count * sends_s / filled
    jobs = tuple(
        JobSpec(
            name=f"j{number}",
            pattern=Pattern.ALLREDUCE,
            workers=("h0", "h1"),
            servers=(),
            model_mb=model_mb,
            compute_s=iteration_s - sends_s,
            iterations=ITERATIONS[0] // (CUT if quick else 1),
            start_s=draws.uniform(0.0, iteration_s),
            jitter=JITTER,
        )
        for number in range(1 if policy == "dedicated" else count)
    )
    scenario = Scenario("snapshot", seed, None, SlotsSpec(), star(2, GBPS), jobs, ())
    simulation, trained = run_scenario(scenario, "fair" if policy == "dedicated" else policy, seed)
    times_s = [time_s for job in trained for time_s in steady_times_s(job, simulation.now_ns)]
    return {"mean_s": fmean(times_s), "p99_s": percentile(times_s, 99)} | _adjustments(simulation)
