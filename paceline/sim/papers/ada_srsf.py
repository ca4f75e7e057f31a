"""Ada-SRSF, "Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs", section V.

Runs are `PLACEMENT/RULE` on the engine `analytic-eq5` (paceline/sim/eq5), with and without what the authors' simulator
adds to AdaDUAL (exchanges.py): the paper's gain is that addition.
"""

from collections.abc import Iterator, Sequence
from random import Random
from statistics import fmean, median

from paceline.flowcore.allocation.gates.contention import Contention
from paceline.sim.eq5.engine import Cluster, Eq5Engine
from paceline.sim.eq5.exchanges import Rule
from paceline.sim.eq5.job import Eq5Job, Model
from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.panel import Curves, Panel, curve, distribution
from paceline.sim.papers.paper import Paper, Results, Row
from paceline.sim.run import percentile

MODELS = (  # Table III
    Model(526.4e6, 4527, 35.8e-3, 53.7e-3),  # VGG-16
    Model(99.2e6, 3213, 25.0e-3, 37.4e-3),  # ResNet-50
    Model(103.0e6, 3291, 34.9e-3, 52.4e-3),  # Inception-V3
    Model(251.8e6, 2751, 31.5e-3, 47.3e-3),  # LSTM-PTB
)
GPU_MIX = ((1, 80), (2, 14), (4, 26), (8, 30), (16, 8), (32, 2))
ITERATIONS = (1000, 6000)
ARRIVALS_S = 1200
CLUSTER = Cluster(16, 4, 32768, Contention(a_s=6.69e-4, b_s=8.53e-10, eta_s=2.35e-10))
QUICK = 0.1  # of iterations and of the time in which jobs come

RULES = {
    "srsf1": Rule(1),
    "srsf2": Rule(2),
    "srsf3": Rule(3),
    "adadual": Rule(),
    "adadual-credited": Rule(credited=True),
}
NAMES = {"srsf1": "SRSF(1)", "srsf2": "SRSF(2)", "srsf3": "SRSF(3)"} | {
    "adadual": "AdaDUAL as Algorithm 2 has it",
    "adadual-credited": "AdaDUAL with the double credit",
}
PLACEMENTS = {"random": "RAND", "first-fit": "FF", "list": "LS"}  # Table IV, beside LWF-1
KAPPAS = (2, 4)  # Fig. 5, beside 1


def draw(seed: int, scale: float = 1.0) -> list[Eq5Job]:
    draws = Random(f"{seed}/ada-srsf")
    demands = [gpus for gpus, jobs in GPU_MIX for _ in range(jobs)]
    draws.shuffle(demands)
    jobs = [
        Eq5Job(
            number,
            arrival_s=draws.randrange(ARRIVALS_S) * scale,
            gpus=gpus,
            model=draws.choice(MODELS),
            left=round(draws.randint(*ITERATIONS) * scale),
        )
        for number, gpus in enumerate(demands)
    ]
    return sorted(jobs, key=lambda job: job.arrival_s)


def runs(quick: bool) -> Sequence[str]:
    others = [f"{name}/{rule}" for name in PLACEMENTS for rule in ("adadual-credited", "adadual")]
    return [*(f"lwf/{rule}" for rule in RULES), *others, *(f"lwf-{kappa}/adadual-credited" for kappa in KAPPAS)]


def perform(run: str, seed: int, quick: bool) -> Row:
    placement, _, rule = run.partition("/")
    jobs = draw(seed, QUICK if quick else 1.0)
    engine = Eq5Engine(CLUSTER, placement, RULES[rule], Random(f"{seed}/placement"))
    engine.run(jobs)
    jcts_s = [job.end_s - job.arrival_s for job in jobs]
    return {
        "mean_jct_s": fmean(jcts_s),
        "median_jct_s": median(jcts_s),
        "p95_jct_s": percentile(jcts_s, 95),
        "gpu_utilization": engine.busy_s / (engine.now_s * CLUSTER.servers * CLUSTER.gpus_per_server),
    } | distribution(jcts_s)


def claims(results: Results) -> Iterator[Claim]:
    jct = "mean_jct_s"

    def lower(run: str, than: str, key: str = jct) -> list[float]:
        return results.lower(key, f"lwf/{run}", f"lwf/{than}")

    seconds = {rule: f"{results.mean(f'lwf/{rule}', jct):.0f}" for rule in RULES}
    found = f"mean JCT {seconds['srsf1']}, {seconds['srsf2']}, {seconds['srsf3']} s; the paper's 1375, 1735, 1751 s"
    yield order("SRSF(1) is below SRSF(2) in mean JCT", "V-B, Table V", 20.7, lower("srsf1", "srsf2"), found)
    yield order("SRSF(2) is below SRSF(3) in mean JCT", "V-B, Table V", 0.9, lower("srsf2", "srsf3"), found)
    for credited in (True, False):
        ada = "adadual-credited" if credited else "adadual"
        name = "AdaDUAL with the double credit" if credited else "AdaDUAL as Algorithm 2 has it"
        why = f"mean JCT {seconds[ada]} s"
        if credited:
            why += " (paper: 1099): each exchange that waits makes the one it waits for faster"
        else:
            why += f"; the same run with the authors' double credit has {seconds['adadual-credited']}"
        yield figure(f"{name} is below SRSF(1) in mean JCT", "V-B, Table V", 20.1, lower(ada, "srsf1"), why)
        yield figure(f"{name} is below SRSF(2) in mean JCT", "V-B, Table V", 36.7, lower(ada, "srsf2"), why)
        yield figure(f"{name} is below SRSF(1) in p95 JCT", "V-B, Table V", 36.0, lower(ada, "srsf1", "p95_jct_s"), why)
        busier = _busier(results, f"lwf/{ada}", "lwf/srsf1")
        yield figure(f"{name} uses GPUs more than SRSF(1)", "V-B, Table V", 39.6, busier, why)
    yield from _placements(results)


def _what_credit_does(results: Results, placement: str, other: str) -> str:
    """Where more exchanges wait more is credited, so placements come closer to each other."""
    ours, theirs = (
        results.mean(f"{name}/adadual", "mean_jct_s") / results.mean(f"{name}/adadual-credited", "mean_jct_s")
        for name in ("lwf", placement)
    )
    without = fmean(_busier(results, "lwf/adadual", f"{placement}/adadual"))
    return f"the credit makes {other}'s jobs {theirs:.1f} times as fast, LWF-1's {ours:.1f}: without it {without:.0f} %"


def _placements(results: Results) -> Iterator[Claim]:
    jct = "mean_jct_s"
    for rule, name in (("adadual-credited", "with the double credit"), ("adadual", "as Algorithm 2 has it")):
        found = ", ".join(
            f"{other} {results.mean(f'{placement}/{rule}', jct):.0f}"
            for placement, other in (("lwf", "LWF-1"), *PLACEMENTS.items())
        )
        why = f"mean JCT s: {found}; the paper's 1099, 2882, 1921, 2282"
        for (placement, other), paper in zip(PLACEMENTS.items(), (61.9, 42.8, 51.9), strict=True):
            gains = results.lower(jct, f"lwf/{rule}", f"{placement}/{rule}")
            yield figure(
                f"LWF-1 is below {other} in mean JCT, under AdaDUAL {name}", "V-B, Table IV", paper, gains, why
            )
        used = ", ".join(
            f"{other} {100 * results.mean(f'{placement}/{rule}', 'gpu_utilization'):.1f}"
            for placement, other in (("lwf", "LWF-1"), *PLACEMENTS.items())
        )
        for (placement, other), paper in zip(PLACEMENTS.items(), (119.0, 59.0, 70.0), strict=True):
            why = f"GPU utilization in %: {used}; the paper's 42.8, 19.5, 26.8, 25.1"
            if rule == "adadual-credited":
                why += f"; {_what_credit_does(results, placement, other)}"
            busier = _busier(results, f"lwf/{rule}", f"{placement}/{rule}")
            yield figure(
                f"LWF-1 uses GPUs more than {other}, under AdaDUAL {name}", "V-B, Table IV", paper, busier, why
            )
    found = ", ".join(f"{kappa}: {results.mean(f'lwf-{kappa}/adadual-credited', jct):.0f}" for kappa in KAPPAS)
    why = (
        f"mean JCT s of κ = 1: {results.mean('lwf/adadual-credited', jct):.0f}, {found}; AdaDUAL with the double credit"
    )
    for kappa in KAPPAS:
        gain = results.lower(jct, "lwf/adadual-credited", f"lwf-{kappa}/adadual-credited")
        yield order(f"κ = 1 is below κ = {kappa} in mean JCT", "V-B, Fig. 5", "below", gain, why)


def _busier(results: Results, run: str, than: str) -> list[float]:
    """By how many percent GPUs compute more, seed by seed."""
    key = "gpu_utilization"
    pairs = zip(results.values(run, key), results.values(than, key), strict=True)
    return [100.0 * (ours / theirs - 1.0) for ours, theirs in pairs]


def panels(results: Results) -> Sequence[Panel]:
    placed = {"LWF-1": "lwf/adadual-credited"} | {
        name: f"{placement}/adadual-credited" for placement, name in PLACEMENTS.items()
    }
    rules = {NAMES[rule]: f"lwf/{rule}" for rule in RULES}
    return (
        Curves("Fig. 4(a): placements", "JCT s", {name: curve(results, run) for name, run in placed.items()}),
        Curves("Fig. 6(a): rules", "JCT s", {name: curve(results, run) for name, run in rules.items()}),
    )


PAPER = Paper(
    name="ada-srsf",
    title="Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs (Ada-SRSF)",
    set_up=(
        "16 servers of 4 GPUs, 10 Gbit/s Ethernet. 160 jobs (80 × 1, 14 × 2, 26 × 4, 30 × 8, 8 × 16 and 2 × 32 GPUs)"
        " of Table III's four models come within 20 minutes and run for 1000 to 6000 iterations. An exchange takes"
        " a + k·b·M + (k − 1)·η·M (eq. 5), whatever the number of servers; a GPU computes for one job at a time, and"
        " holds as many as its memory does."
    ),
    assumed=(
        "Iterations are uniform, models equally likely, arrivals uniform in whole seconds.",
        "A GPU has 32 GB, as in the authors' simulator (the paper measured on 16 GB): 7 to 11 jobs.",
        "η = 0.235 ms/MB, the authors' constant; the paper gives a and b only.",
        "Utilization is computing ÷ GPU time until the last job ends; the paper does not say.",
        "The double credit is the authors' simulator's, not the paper's: see paceline/sim/eq5/exchanges.py.",
    ),
    seeds=3,
    quick="a tenth of the iterations, in a tenth of the time",
    runs=runs,
    perform=perform,
    claims=claims,
    panels=panels,
)
