"""Titan, "Non-Idle Machine-Aware Worker Placement", section V-B (Exp#1 to #4; the others are of its testbed).

Runs are `PLACEMENT/WAY` on the engine `analytic` with halving-doubling. Figures are averages over the time in which
jobs arrive: afterwards machines empty that no job fills again.

    100g       as in the paper                              free       links so wide that exchanges take no time
    10g        links a tenth as fast                        arranged   workers matched with the pattern, as Titan's are

Ways that show a reason, each on the first thousand jobs:

    1g         links a hundredth as fast                    skewed     only models that Tiresias keeps together
    limited    free, and at most LIMITED_MB between two machines in a phase: Titan's P_{s,s'}, which binds nowhere else

`tiresias-exact` reads Tiresias as `elasticflow-exact` reads ElasticFlow: a job that is kept together opens a machine
rather than a piece that it does not fill.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paceline.cluster.schedulers.titan import Titan
from paceline.cluster.schedulers.wrappers import Arranged
from paceline.flowcore.model.topology import clos
from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.panel import Bars, Panel, bar
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.trace import results as trace_results
from paceline.sim.trace.formats.generated import Workload, draw
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.workload import RACK

MACHINES = 512
GBPS = {"100g": 100.0, "arranged": 100.0, "10g": 10.0, "free": 1e5, "1g": 1.0, "skewed": 100.0, "limited": 1e5}
PHASE_S = 0.1  # a phase may take
LIMITED_MB = 30.0
REASONS = ["titan/1g", "hived/1g", "tiresias/1g"]
REASONS += ["titan/skewed", "tiresias/skewed", "tiresias-exact/skewed", "titan/limited", "hived/limited"]
PLACEMENTS = {
    "titan": "Titan",
    "elasticflow": "ElasticFlow (best fit)",
    "elasticflow-exact": "ElasticFlow (exact fit or idle machines)",
    "hived": "HiveD",
    "tiresias": "Tiresias",
}
WORKLOAD = Workload(
    jobs=5000,
    arrival_every_s=12.0,
    burstiness=1.0,
    median_s=890.0,
    sigma=2.16,
    longest_s=86400.0,
    gpu_mix=((1, 30), (2, 15), (3, 8), (4, 15), (5, 6), (6, 6), (8, 12), (12, 4), (16, 3), (32, 1)),
    models=("vgg16", "resnet50", "inception3", "lstm"),
    compute_scale=8.0,
)
SKEWED = ("vgg16", "lstm")
READINGS = {
    "tiresias-exact/100g": "exact fit or idle machines",
    "tiresias/skewed": "if it keeps all jobs together",
    "tiresias-exact/skewed": "exact fit or idle machines, if it keeps all jobs together",
}
REASON_JOBS, QUICK_JOBS = 1000, 400
KEYS = ("machines_used_mean", "machine_hours", "fragmentation_mean", "cross_mb_mean", "profit_rate")


def runs(quick: bool) -> Sequence[str]:
    others = ("titan/free", "hived/free", "titan/10g", "hived/10g", "elasticflow-exact/arranged", "tiresias-exact/100g")
    return [*(f"{name}/100g" for name in PLACEMENTS), *others, *REASONS]


def perform(run: str, seed: int, quick: bool) -> Row:
    name, _, way = run.partition("/")
    workload = replace(WORKLOAD, models=SKEWED) if way == "skewed" else WORKLOAD
    most = QUICK_JOBS if quick else REASON_JOBS if run in REASONS else None
    jobs = draw(workload, PROFILES, seed)[:most]
    options = TraceOptions(
        servers=MACHINES,
        placement=name,
        seed=seed,
        engine="analytic",
        collective="halving-doubling",
        phase_s=8e-3 * LIMITED_MB / GBPS[way] if way == "limited" else PHASE_S,
        until_s=jobs[-1].arrival_s - jobs[0].arrival_s,
    )
    simulated = TraceRun(clos(RACK, MACHINES // RACK, 1, (GBPS[way], GBPS[way])), options)
    if way == "arranged":
        simulated.scheduler = Arranged(simulated.scheduler, Titan(options.collective))
    simulated.run(jobs)
    row = trace_results.row(simulated, 0.0)
    return {key: float(row[key]) for key in KEYS}


def claims(results: Results) -> Iterator[Claim]:
    def lower(key: str, than: str) -> list[float]:
        return results.lower(key, "titan/100g", f"{than}/100g")

    def shown(key: str, digits: int = 0, scale: float = 1.0) -> str:
        return ", ".join(
            f"{name} {scale * results.mean(f'{placement}/100g', key):.{digits}f}"
            for placement, name in PLACEMENTS.items()
        )

    machines = (
        f"machines: {shown('machines_used_mean')}; the paper's Titan 174, ElasticFlow 334, HiveD 168, Tiresias 207"
    )
    for than, paper in (("elasticflow-exact", 47.9), ("elasticflow", 47.9), ("tiresias", 15.9)):
        gain = lower("machines_used_mean", than)
        why = machines
        if than == "tiresias":
            idle = _percent(results, "tiresias/100g")
            why += f". Tiresias' jobs that need no consolidation fill fragments: {idle} % idle, the paper's 19.4"
        yield figure(f"Titan uses fewer machines than {PLACEMENTS[than]}", "V-B, Exp#1", paper, gain, why)
    for tiresias, reading in READINGS.items():
        way = tiresias.partition("/")[2]
        gain = results.lower("machines_used_mean", f"titan/{way}", tiresias)
        why = f"{_percent(results, tiresias)} % of its GPUs are idle; which machines it takes, and for how many models"
        why += " it insists on few, decides, and the paper says neither"
        yield figure(f"… than Tiresias, {reading}", "V-B, Exp#1", 15.9, gain, why)
    more = [-gain for gain in lower("machines_used_mean", "hived")]
    free = [-gain for gain in results.lower("machines_used_mean", "titan/free", "hived/free")]
    idle = f"idle GPUs in %: Titan {_percent(results, 'titan/free')}, HiveD {_percent(results, 'hived/free')}"
    why = f"{machines}. HiveD's jobs exchange more and last longer; where exchanges take no time the next line has it"
    yield figure("Titan uses more machines than HiveD", "V-B, Exp#1", 3.6, more, why)
    why = f"both leave next to nothing to fill ({idle}; the paper's 11.7 and 10)"
    yield figure("Titan uses more machines than HiveD, if exchanges take no time", "V-B, Exp#1", 3.6, free, why)
    limited = [-gain for gain in results.lower("machines_used_mean", "titan/limited", "hived/limited")]
    limit = (
        f"Titan splits fewer jobs if P allows {LIMITED_MB:.0f} MB a phase between two machines; exchanges take no time"
    )
    yield figure(
        "… more than HiveD, if little may pass between two machines in a phase", "V-B, Exp#1", 3.6, limited, limit
    )
    hours = f"machine-hours: {shown('machine_hours')}"
    for than in list(PLACEMENTS)[1:]:
        gain = lower("machine_hours", than)
        yield order(
            f"Titan costs fewer machine-hours than {PLACEMENTS[than]}", "V-B, Exp#1, Fig. 3", "below", gain, hours
        )
    idle = f"fragmentation in %: {shown('fragmentation_mean', 1, 100.0)}; the paper's 11.7, 38.1, 10.0 (HiveD), 19.4"
    for than, paper in (("elasticflow-exact", 69.3), ("elasticflow", 69.3), ("tiresias", 39.7)):
        gain = lower("fragmentation_mean", than)
        yield figure(f"Titan's fragmentation is below that of {PLACEMENTS[than]}", "V-B, Exp#2", paper, gain, idle)
    above = [-gain for gain in lower("fragmentation_mean", "hived")]
    yield order("Titan's fragmentation is above HiveD's", "V-B, Exp#2", "above", above, idle)
    above = [-gain for gain in results.lower("fragmentation_mean", "titan/limited", "hived/limited")]
    yield order(
        "… above HiveD's, if little may pass between two machines in a phase", "V-B, Exp#2", "above", above, limit
    )
    crossing = f"MB between machines per all-reduce: {shown('cross_mb_mean')}"
    for than, paper in (("tiresias", 40.6), ("hived", 76.4)):
        gain = lower("cross_mb_mean", than)
        yield figure(
            f"Titan exchanges less between machines than {PLACEMENTS[than]}", "V-B, Exp#3", paper, gain, crossing
        )
    arranged = results.mean("elasticflow-exact/arranged", "cross_mb_mean")
    why = (
        f"{crossing}. With its workers matched with the pattern, as Titan's are, ElasticFlow (exact) has {arranged:.0f}"
    )
    for than in ("elasticflow-exact", "elasticflow"):
        gain = results.lower("cross_mb_mean", f"{than}/100g", "titan/100g")
        yield order(f"{PLACEMENTS[than]} exchanges less between machines than Titan", "V-B, Exp#3", "below", gain, why)
    gain = results.lower("cross_mb_mean", "elasticflow-exact/arranged", "titan/100g")
    claim = "… if ElasticFlow's workers are matched with the pattern, too"
    yield order(claim, "V-B, Exp#3", "below", gain, f"ElasticFlow (exact) has {arranged:.0f} MB then")
    slow = results.mean("titan/10g", "profit_rate") / results.mean("hived/10g", "profit_rate") - 1.0
    profit = (
        f"GPU-hours sold per machine-hour: {shown('profit_rate', 2)}. What an exchange takes decides, which the paper"
    )
    profit += f" does not give: on links of 10 Gbit/s Titan is {100.0 * slow:.0f} % above HiveD"
    for than, paper in (("elasticflow-exact", 22.7), ("elasticflow", 22.7), ("tiresias", 342.0), ("hived", 1100.0)):
        more = _above(results, "profit_rate", "titan/100g", f"{than}/100g")
        yield figure(f"Titan's profit rate is above that of {PLACEMENTS[than]}", "V-B, Exp#4", paper, more, profit)
    for than, paper in (("tiresias", 342.0), ("hived", 1100.0)):
        more = _above(results, "profit_rate", "titan/1g", f"{than}/1g")
        sold = ", ".join(
            f"{PLACEMENTS[name]} {results.mean(f'{name}/1g', 'profit_rate'):.2f}" for name in ("titan", than)
        )
        claim = f"… above that of {PLACEMENTS[than]} on links of 1 Gbit/s"
        yield figure(claim, "V-B, Exp#4", paper, more, f"GPU-hours sold per machine-hour: {sold}")


def _above(results: Results, key: str, run: str, than: str) -> list[float]:
    """By how many percent, seed by seed."""
    pairs = zip(results.values(run, key), results.values(than, key), strict=True)
    return [100.0 * (ours / theirs - 1.0) for ours, theirs in pairs]


def _percent(results: Results, run: str) -> str:
    return f"{100.0 * results.mean(run, 'fragmentation_mean'):.1f}"


def panels(results: Results) -> Sequence[Panel]:
    def bars(title: str, key: str, unit: str, scale: float = 1.0) -> Panel:
        series = {name: [bar(results, f"{placement}/100g", key, scale)] for placement, name in PLACEMENTS.items()}
        return Bars(title, unit, ("",), series)

    return (
        bars("Exp#1: machines in use", "machines_used_mean", "machines"),
        bars("Exp#2: fragmentation", "fragmentation_mean", "%", 100.0),
        bars("Exp#3: between machines", "cross_mb_mean", "MB per all-reduce"),
        bars("Exp#4: profit rate", "profit_rate", "GPU-hours per machine-hour"),
    )


PAPER = Paper(
    name="titan",
    title="Titan: Non-Idle Machine-Aware Worker Placement for Efficient Distributed Training in GPU Clusters",
    set_up=(
        "512 machines of 8 GPUs, 64 racks of 8, 100 Gbit/s everywhere; halving-doubling. Jobs come as in Microsoft's"
        " trace and are placed one by one; an exchange adds to a job's duration. Used machines are counted as jobs"
        " arrive. Baselines: ElasticFlow (the machine whose idle GPUs are closest to the job's workers), HiveD"
        " (fragments first) and Tiresias."
    ),
    assumed=(
        "The trace is drawn: 5000 jobs of 1 to 32 workers, not all powers of two, every 12 s on average; durations"
        " log-normal as Philly's, a day at most.",
        "ElasticFlow's workers are rounded up to a power of two; GPUs that pad a job count as idle in fragmentation.",
        "“Closest” is read in two ways: the tightest machine that holds the job, or only one that it fills exactly, and"
        " else an idle one; of Tiresias' consolidation, too.",
        "Runs that show a reason (links of 1 Gbit/s, all jobs kept together, little between two machines) have the"
        " first 1000 jobs.",
        "The profit rate is GPU-hours of computing sold per machine-hour, of the jobs that have ended.",
    ),
    seeds=3,
    quick="the first 400 jobs",
    runs=runs,
    perform=perform,
    claims=claims,
    panels=panels,
)
