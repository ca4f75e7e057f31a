"""Dally, "A network-placement sensitive cluster scheduler for deep learning", sections V and VI.

Runs are `ARRIVALS/RACKS/SCHEDULER` on the engine `analytic-table`: Table I gives what an exchange costs on each tier,
and no job slows another, as in the paper's own simulator. Two readings of Dally stand beside each other:

    dally        offers go to jobs in the wait queue, and a job runs until it is preempted or through (§IV-B)
    dally-move   ours: a running job is offered a better tier, too

In the first a job that once accepted GPUs across racks keeps them: its Nw_sens is low, so no other job takes them.
`gandiva-stay` is Gandiva without its moves. Other ARRIVALS than the paper's show reasons (dally_claims.py):

    varied     a batch whose durations vary more about the same mean
    mild       a batch of the models that take at most twice as long across racks
    free       a batch whose exchanges cost nothing
    dense      Poisson, twice as many jobs in a time
    poisson~K  the K-th other draw of Poisson's jobs and times
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf

from paceline.sim.papers.dally_claims import claims
from paceline.sim.papers.panel import Bars, Panel, bar
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.trace import results as trace_results
from paceline.sim.trace.formats.generated import Workload, draw
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.workload import RACK, build_topology

HOUR_S = 3600.0
RACKS = (2, 4, 8, 16)
SCHEDULERS = ("dally", "dally-move", "dally-manual", "dally-nowait", "dally-full", "tiresias", "gandiva")
POISSON = [("poisson", racks, name) for racks in (4, 8) for name in ("dally", "dally-move", "tiresias", "gandiva")]
POISSON += [(arrivals, 8, "gandiva-stay") for arrivals in ("poisson", "dense")]
POISSON += [("dense", 8, name) for name in ("dally", "dally-move", "gandiva")]
PATTERNS = 4  # others than the first, of each seed
POISSON += [(f"poisson~{k}", 4, name) for k in range(1, 1 + PATTERNS) for name in ("dally", "tiresias")]
VARIED = [("varied", 2, name) for name in ("dally", "dally-move", "gandiva")]
QUEUES = ("dally-queue", "dally-full-queue")
MILD = [(racks, name) for racks in (2, 8) for name in ("dally", "dally-nowait", "dally-full", "tiresias", *QUEUES)]

# Calibrated on Table II's median and P95 of Dally at 8 racks, 667 and 1662 h: seeds 11 and 12 with moves have 668, 1727
MEDIAN_S, SIGMA = 220 * HOUR_S, 0.8
VARIED_SIGMA = 2.4
VARIED_MEDIAN_S = MEDIAN_S * exp((SIGMA**2 - VARIED_SIGMA**2) / 2)  # the mean is the same
MODELS = ("vgg11", "alexnet", "mobilenet_v3", "resnet18", "resnet50", "bert-large")  # Table I
GPU_MIX = ((1, 40), (2, 10), (4, 15), (8, 20), (16, 10), (32, 4), (64, 1))
ROUND_S = 3 * HOUR_S  # between two rounds of offers; beside 12 h, the shortest timer
SHOWN_H = ("mean_jct", "median_jct", "p95_jct", "p99_jct", "makespan", "mean_wait", "p95_wait", "mean_exchange")
ARRIVE_EVERY_S = {"poisson": 3 * HOUR_S, "dense": 1.5 * HOUR_S}
AT_ONCE_S = 0.01
MILDEST = tuple(name for name in MODELS if (PROFILES[name].exchange_share or (inf,))[-1] <= 1.0)
FREE = PROFILES | {name: replace(PROFILES[name], exchange_share=(0.0, 0.0, 0.0)) for name in MODELS}


def workload(arrivals: str, quick: bool) -> Workload:
    cut = 3 if quick else 1
    usual = Workload(
        jobs=(400 if arrivals in ARRIVE_EVERY_S else 500) // cut,
        arrival_every_s=ARRIVE_EVERY_S.get(arrivals, AT_ONCE_S),
        burstiness=1.0,
        median_s=MEDIAN_S,
        sigma=SIGMA,
        longest_s=50 * MEDIAN_S,
        gpu_mix=GPU_MIX,
        models=MILDEST if arrivals == "mild" else MODELS,
        compute_s=1.0,
    )
    if arrivals == "varied":
        return replace(usual, median_s=VARIED_MEDIAN_S, sigma=VARIED_SIGMA, longest_s=500 * MEDIAN_S)
    return usual


def runs(quick: bool) -> Sequence[str]:
    sizes = (2, 8) if quick else RACKS
    batch = [("batch", racks, name) for racks in sizes for name in (*SCHEDULERS, "gandiva-stay")]
    mild = [("mild", *run) for run in MILD]
    free = [("free", sizes[-1], name) for name in ("dally", "dally-move")]
    return [f"{arrivals}/{racks}/{name}" for arrivals, racks, name in (*batch, *POISSON, *VARIED, *mild, *free)]


def perform(run: str, seed: int, quick: bool) -> Row:
    arrivals, racks, name = run.split("/")
    arrivals, _, pattern = arrivals.partition("~")
    servers, profiles = int(racks) * RACK, FREE if arrivals == "free" else PROFILES
    options = TraceOptions(servers=servers, placement=name, seed=seed, engine="analytic-table", round_s=ROUND_S)
    simulated = TraceRun(build_topology("dally", servers), options, profiles)
    simulated.run(draw(workload(arrivals, quick), profiles, seed + 1000 * int(pattern or 0)))
    row = trace_results.row(simulated, 0.0)
    return {f"{key}_h": row[f"{key}_s"] / HOUR_S for key in SHOWN_H} | {"preemptions": float(row["preemptions"])}


def panels(results: Results) -> Sequence[Panel]:
    sizes = sorted({int(run.split("/")[1]) for run in results.rows if run.startswith("batch")})
    labels = tuple(f"{size} racks" for size in sizes)

    def bars(title: str, key: str, unit: str) -> Panel:
        names = (*SCHEDULERS, "gandiva-stay")
        series = {name: [bar(results, f"batch/{size}/{name}", key) for size in sizes] for name in names}
        return Bars(title, unit, labels, series, logarithmic=True)

    return (
        bars("Fig. 7: makespan", "makespan_h", "h"),
        bars("Fig. 8(b): communication", "mean_exchange_h", "h a job"),
        bars("Fig. 13(a): mean JCT", "mean_jct_h", "h"),
    )


PAPER = Paper(
    name="dally",
    title="Dally: A network-placement sensitive cluster scheduler for deep learning",
    set_up=(
        "Racks of 8 machines of 8 GPUs; 2, 4, 8 and 16 racks. 500 jobs of Table I's six models come at once, or about"
        " 400 as Poisson. Jobs last days and weeks. Table I says what an exchange costs on a machine, in a rack and"
        " across racks. Offers go to jobs in the wait queue in increasing order of Nw_sens; the default timers are 12"
        " and 24 hours. Baselines: Tiresias, Gandiva, and Dally with fixed timers, with none, and with endless ones."
    ),
    assumed=(
        "SenseTime's trace is not used: durations are log-normal, median 220 h, σ 0.8, calibrated on Table II's median"
        " and P95 of Dally at 8 racks with other seeds (11 and 12).",
        "Demands are ours: 40 % one GPU, 10 % two, 15 % four, 20 % eight, 10 % sixteen, 4 % 32, 1 % 64; models are"
        " equally likely. Poisson arrivals come every three hours on average.",
        "A job may be stopped after an hour; offers are made every three hours, and whenever a job comes or ends. The"
        " tuner remembers a week. A job that has not run has Nw_sens 1.",
        "Tiresias' queues (1 and 10 GPU-hours) and Gandiva's slice (an hour) are ours.",
        "“Jobs stay across racks” below: jobs that took GPUs there keep them, and MobileNetV3 takes 197 times as long."
        " With moves (`dally-move`) they do not stay, which is all that differs between these two; how it is without"
        " such models is in the lines that begin with “… of models”.",
        "“Gandiva moves, too”: to better tiers, as its paper says, which mends what the network does. `gandiva-stay`"
        " does not, and the line below has it.",
    ),
    seeds=3,
    quick="a third of the jobs, at 2 and 8 racks",
    runs=runs,
    perform=perform,
    claims=claims,
    panels=panels,
)
