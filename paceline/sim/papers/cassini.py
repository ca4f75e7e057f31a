"""CASSINI, "Network-Aware Job Scheduling in Machine Learning Clusters", section 5.

Runs are `TRACE/PLACEMENT/POLICY` on the array engine, every iteration simulated. `dedicated` is each job alone on the
cluster: what no schedule can beat. The last trace, `pairs`, is ours: like jobs on two servers each, which fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from random import Random
from statistics import fmean

from paceline.flowcore.model.topology import Topology, clos, star
from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.run import percentile
from paceline.sim.trace import results as trace_results
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.run import TraceOptions, TraceRun

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
LOAD = 0.9
JOBS, QUICK_JOBS = 24, 12
JITTER = 0.01
STEP_MS = 2.0
DYNAMIC_S = 60.0  # when the second half of the dynamic trace comes
CUT = 3  # of iterations, if quick

SCHEMES = {  # placement, gate
    "Themis": ("lwf", ""),
    "shifts alone": ("lwf", "+cassini"),
    "ranking alone": ("lwf+cassini", ""),
    "Th+CASSINI": ("lwf+cassini", "+cassini"),
    "Random": ("random", ""),
}
TRACES = {"poisson": (2, 12, 1), "dynamic": (2, 12, 1), "two-gpus": (2, 3, 2)}  # servers a ToR, ToRs, GPUs a server


def exchange_s(model_mb: float, workers: int) -> float:
    """A ring's, alone."""
    return 2.0 * (workers - 1) / workers * model_mb * 8e6 / (GBPS * 1e9)


def draw(trace: str, seed: int, quick: bool) -> list[TraceJob]:
    draws = Random(f"{seed}/cassini")
    jobs = []
    for number in range(QUICK_JOBS if quick else JOBS):
        if trace == "pairs":
            workers, model, iteration_s = 2, "vgg16", 0.2
        else:
            workers, model = draws.randint(*WORKERS), draws.choice(list(MODELS_MB))
            iteration_s = draws.uniform(*ITERATION_S)
        # An exchange may be longer than the iteration that was drawn; a fifth of it is computing in any case.
        compute_s = max(iteration_s - exchange_s(MODELS_MB[model], workers), 0.2 * iteration_s)
        iterations = draws.randint(*ITERATIONS) // (CUT if quick else 1)
        jobs.append(TraceJob(f"j{number}", 0.0, workers, model, MODELS_MB[model], compute_s, iterations))
    return [replace(job, arrival_s=at_s) for job, at_s in zip(jobs, _arrivals_s(trace, jobs, draws), strict=True)]


def _arrivals_s(trace: str, jobs: Sequence[TraceJob], draws: Random) -> Iterator[float]:
    if trace in ("dynamic", "two-gpus"):
        yield from (0.0 if place < len(jobs) // 2 else DYNAMIC_S for place in range(len(jobs)))
        return
    alone_s = fmean(job.gpus * job.iterations * (job.compute_s + exchange_s(job.model_mb, job.gpus)) for job in jobs)
    at_s = 0.0
    for _ in jobs:
        at_s += draws.expovariate(LOAD * _gpus(trace) / alone_s)
        yield at_s


def _gpus(trace: str) -> int:
    return 16 if trace == "pairs" else TRACES[trace][0] * TRACES[trace][1] * TRACES[trace][2]


def _topology(trace: str) -> tuple[Topology, int]:
    """2:1 oversubscribed: two servers share one uplink as fast as their own links."""
    if trace == "pairs":
        return star(8, GBPS), 2
    servers, tors, gpus = TRACES[trace]
    return clos(servers, tors, 1, (GBPS, GBPS)), gpus


def runs(quick: bool) -> Sequence[str]:
    found = [f"{trace}/{place}/fair{gate}" for trace in ("poisson", "dynamic") for place, gate in SCHEMES.values()]
    found += [f"{trace}/lwf/dedicated" for trace in TRACES]
    found += [f"dynamic/{place}/fair-penalty{gate}" for place, gate in (SCHEMES["Themis"], SCHEMES["Th+CASSINI"])]
    found += [f"two-gpus/{place}/fair{gate}" for place, gate in (SCHEMES["Themis"], SCHEMES["Th+CASSINI"])]
    return [*found, *(f"pairs/random/{policy}" for policy in ("fair", "fair+cassini", "dedicated"))]


def perform(run: str, seed: int, quick: bool) -> Row:
    trace, placement, policy = run.split("/")
    jobs = draw(trace, seed, quick)
    if policy == "dedicated":
        return _dedicated(trace, jobs, placement, seed)
    simulated = _simulated(trace, jobs, placement, policy, seed)
    row = trace_results.row(simulated, 0.0)
    return {"mean_s": row["iteration"]["mean_s"], "p99_s": row["iteration"]["p99_s"], "mean_jct_s": row["mean_jct_s"]}


def _simulated(trace: str, jobs: Sequence[TraceJob], placement: str, policy: str, seed: int) -> TraceRun:
    topology, gpus = _topology(trace)
    options = TraceOptions(
        servers=len(topology.hosts),
        gpus_per_server=gpus,
        placement=placement,
        policy=policy,
        seed=seed,
        jitter=JITTER,
        sample_s=inf,
        step_ms=STEP_MS,
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
    return {"mean_s": fmean(times_s), "p99_s": percentile(times_s, 99), "mean_jct_s": fmean(jcts_s)}


def claims(results: Results) -> Iterator[Claim]:
    def lower(trace: str, key: str, scheme: str, than: str, policy: str = "fair") -> list[float]:
        ours, theirs = (f"{trace}/{place}/{policy}{gate}" for place, gate in (SCHEMES[scheme], SCHEMES[than]))
        return results.lower(key, ours, theirs)

    def shown(trace: str, key: str) -> str:
        found = {name: f"{trace}/{place}/fair{gate}" for name, (place, gate) in SCHEMES.items()}
        found = {name: run for name, run in found.items() if run in results.rows}
        found["each job alone"] = f"{trace}/lwf/dedicated"
        means = ", ".join(f"{name} {1e3 * results.mean(run, key):.0f}" for name, run in found.items())
        most = 100.0 * (1.0 - results.mean(f"{trace}/lwf/dedicated", key) / results.mean(f"{trace}/lwf/fair", key))
        return f"iteration in ms: {means}; jobs alone are {most:.0f} % below Themis, which is all there is to gain"

    for trace, section, mean, tail in (
        ("poisson", "5.2, Fig. 11", 37.5, 44.4),
        ("dynamic", "5.3, Fig. 13", 33.3, 54.5),
        ("two-gpus", "5.6, Fig. 16", 28.6, 47.4),
    ):
        for key, paper, name in (("mean_s", mean, "mean"), ("p99_s", tail, "p99")):
            claim = f"Th+CASSINI is below Themis in {name} iteration, {trace} trace"
            yield figure(claim, section, paper, lower(trace, key, "Th+CASSINI", "Themis"), shown(trace, key))
    for trace in ("poisson", "dynamic"):
        triples = zip(
            results.values(f"{trace}/lwf/fair", "mean_s"),
            results.values(f"{trace}/lwf+cassini/fair+cassini", "mean_s"),
            results.values(f"{trace}/lwf/dedicated", "mean_s"),
            strict=True,
        )
        saved = [100.0 * (themis - ours) / (themis - alone) for themis, ours, alone in triples]
        claim = f"Of what jobs alone save, Th+CASSINI saves (“similar performance as Ideal”), {trace} trace"
        yield figure(claim, "5.2", 100.0, saved, shown(trace, "mean_s"))
    for key, name in (("mean_s", "mean"), ("p99_s", "p99")):
        penalty = lower("dynamic", key, "Th+CASSINI", "Themis", "fair-penalty")
        claim = f"… where colliding costs what Ada-SRSF measured (fair-penalty), {name} iteration, dynamic trace"
        paper = 33.3 if key == "mean_s" else 54.5
        yield figure(claim, "5.3, Fig. 13", paper, penalty, shown("dynamic", key))
    for trace in ("poisson", "dynamic"):
        gain = lower(trace, "mean_s", "Th+CASSINI", "shifts alone")
        claim = f"Placement adds to what shifts gain, {trace} trace"
        yield order(claim, "5.2, 5.3", "below", gain, shown(trace, "mean_s"))
        gain = lower(trace, "mean_s", "Themis", "Random")
        yield order(f"Random is the worst, {trace} trace", "5.1", "above", gain, shown(trace, "mean_s"))
    alone_s, fair_s = results.mean("pairs/random/dedicated", "mean_s"), results.mean("pairs/random/fair", "mean_s")
    why = f"like jobs that fit, mean iteration in ms: unshifted {1e3 * fair_s:.0f}, alone {1e3 * alone_s:.0f}"
    for key, paper, name in (("mean_s", 33.3, "mean"), ("p99_s", 0.0, "p99")):
        gain = results.lower(key, "pairs/random/fair+cassini", "pairs/random/fair")
        claim = f"Shifted jobs are below unshifted ones in {name} iteration, pairs of one model (our trace)"
        yield figure(claim, "5.3", paper, gain, why) if paper else order(claim, "5.3", "below", gain, why)


PAPER = Paper(
    name="cassini",
    title="CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters",
    set_up=(
        "24 servers of one GPU, 50 Gbit/s, 13 switches, 2:1 oversubscribed. Jobs of 1 to 12 workers of 13 models with"
        " equal probability run for 200 to 1000 iterations; they come as Poisson at a load of 80 to 100 %, or a second"
        " set comes while a first runs (dynamic). Up to 10 candidates. Themis and Pollux with and without CASSINI,"
        " Random, and each job alone."
    ),
    assumed=(
        "The nine data-parallel models of Table 3 in rings; iterations drawn from 0.15 to 0.5 s, a fifth of it at least"
        " computing; jitter 1 %; load 90 %; 24 jobs; two servers to a switch.",
        "Themis is `lwf`, which keeps jobs together and places them once: no leases, no auctions, no change of workers;"
        " Pollux is not repeated, and of model parallelism nothing.",
        "Sharing is max-min (`fair`), which loses nothing when jobs collide; `fair-penalty` loses what Ada-SRSF"
        " measured.",
        "Jobs are held to times where all their links fit (score 0.95 at least) and there is no loop.",
    ),
    seeds=5,
    quick="12 jobs, a third of their iterations",
    runs=runs,
    perform=perform,
    claims=claims,
)
