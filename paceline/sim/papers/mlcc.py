"""MLCC, "Dynamic Flow Scheduling for DNN Training Workloads in Data Centers", section VII.

Runs are `SHARE/LOAD/POLICY` on the array engine, every iteration simulated; SHARE of the jobs are parameter servers.
The paper's scheduler stands there in three readings: `mlcc` and `mlcc-open` send every message of every slot, in steps
of a millisecond, and so run at one load, and with its options on fewer jobs (`SHARE/few/POLICY`), beside `fair` and
the baselines on the same jobs; `paceline` is what this project made of it.

Where a job comes to be is drawn among the GPUs that are free, and a schedule changes which are: two policies on one
trace have jobs in other places, and one is luckier. Two kinds of runs tell the policy from its luck:

    SHARE/LOAD~MOVE/POLICY    the same jobs, each up to MOVED_S later: how far luck alone carries
    SHARE/LOAD@DRAW/POLICY    each job on GPUs that are drawn for it once, the same under every policy

mlcc_claims.py has what is made of the runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random
from statistics import fmean

from paceline.cluster.schedulers.base import FirstComeFirstServed, Scheduler
from paceline.cluster.state import gather
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.policy.mlcc import OPTIONS
from paceline.sim.papers.mlcc_claims import FEW, READINGS, claims
from paceline.sim.papers.paper import Paper, Row
from paceline.sim.trace import results as trace_results
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.workload import build_topology

MODELS = {"vgg19": (549.0, 0.56), "gpt2": (1200.0, 0.9), "vgg16": (528.0, 0.46), "resnet50": (98.0, 0.32)}  # MB, s
RING, WORKERS, SERVERS = 3, 2, 2
HOSTS, GPUS, TIERS_GBPS = 10, 8, (10.0, 20.0, 40.0)  # of a rack, of a host, of the tiers
RACKS, FEW_RACKS = 4, 1
ITERATIONS = (6, 24)
BURSTINESS = 4.0  # squared coefficient of variation of the times between arrivals
STEP_MS, FINE_STEP_MS = 5.0, 1.0

SHARES = ("0", "0.5", "1")
LOADS = ("0.5", "0.7", "0.9")
JOBS, QUICK_JOBS = 100, 16
FEW_LOAD, FEW_JOBS, QUICK_FEW = "0.9", 8, 5  # load and jobs of the runs with every message
ARRAY = ("paceline", "paceline:jct", "fair", "mcs", "mcs-pipelined", "ccml")
MOVES, QUICK_MOVES, MOVED_S = 10, 3, 0.01
DRAWS, QUICK_DRAWS, PLENTY = 5, 2, 1000  # PLENTY GPUs a server: no job waits for the GPUs that were drawn for it


def busy_s(racks: int) -> float:
    """For how long a job keeps the scarcest links of the cluster busy, on average: all uplinks, or all hosts' links."""
    # A ring sends 4/3 of the model three times; two workers push it to two servers and pull it back: four models each.
    sent_mb = fmean(ITERATIONS) * 4.0 * fmean(size_mb for size_mb, _ in MODELS.values())
    crossing = 1.0 - 1.0 / racks  # of the flows between hosts drawn at random
    gbps = HOSTS * TIERS_GBPS[0] if racks == 1 else racks * TIERS_GBPS[1] / crossing
    return sent_mb * 8e-3 / gbps


def draw(share: str, load: str, jobs: int, racks: int, seed: int) -> list[TraceJob]:
    """The same jobs at every load, closer together."""
    draws = Random(f"{seed}/mlcc/{share}")
    drawn, arrival_s, every_s = [], 0.0, busy_s(racks) / float(load)
    for number in range(jobs):
        arrival_s += draws.gammavariate(1.0 / BURSTINESS, BURSTINESS) * every_s
        model = draws.choice(list(MODELS))
        size_mb, compute_s = MODELS[model]
        job = TraceJob(f"j{number}", arrival_s, RING, model, size_mb, compute_s, draws.randint(*ITERATIONS))
        if draws.random() < float(share):
            job = replace(job, gpus=WORKERS + SERVERS, pattern=Pattern.PS, servers=SERVERS)
        drawn.append(job)
    return drawn


def moved(jobs: Sequence[TraceJob], move: int, seed: int) -> list[TraceJob]:
    """The same jobs, each a few milliseconds later."""
    draws = Random(f"{seed}/mlcc/moved/{move}")
    later = [replace(job, arrival_s=job.arrival_s + draws.uniform(0.0, MOVED_S)) for job in jobs]
    return sorted(later, key=lambda job: job.arrival_s)


def same_gpus(servers: Sequence[str], seed: str) -> Scheduler:
    """Places each job at random, by its name alone."""
    gpus = [server for server in servers for _ in range(GPUS)]
    return FirstComeFirstServed(lambda job, _: gather(Random(f"{seed}/{job.name}").sample(gpus, job.gpus)))


def runs(quick: bool) -> Sequence[str]:
    loads = ("0.7",) if quick else LOADS
    found = [f"{share}/{load}/{policy}" for share in SHARES for load in loads for policy in ARRAY]
    found += [f"{share}/{FEW}/{policy}" for share in SHARES for policy in (*READINGS, *ARRAY, "fifo")]
    found += [f"{share}/{FEW_LOAD}/{policy}" for share in SHARES for policy in (*READINGS, "fifo") if not quick]
    found += [f"0.5/{FEW}/mlcc:{point}" for point in OPTIONS]
    again = [f"~{move + 1}" for move in range(QUICK_MOVES if quick else MOVES)]
    again += [f"@{number + 1}" for number in range(QUICK_DRAWS if quick else DRAWS)]
    pairs = [f"{load}{mark}/{policy}" for load in loads for mark in again for policy in ("paceline", "fair")]
    return [*found, *(f"{share}/{pair}" for share in SHARES for pair in pairs)]


def perform(run: str, seed: int, quick: bool) -> Row:
    share, load, policy = run.split("/")
    load, _, move = load.partition("~")
    load, _, number = load.partition("@")
    if load == FEW:
        racks, load, jobs, step_ms = FEW_RACKS, FEW_LOAD, QUICK_FEW if quick else FEW_JOBS, FINE_STEP_MS
    else:
        racks, jobs = RACKS, QUICK_JOBS if quick else JOBS
        step_ms = FINE_STEP_MS if policy in READINGS else STEP_MS
    servers, gpus = racks * HOSTS, PLENTY if number else GPUS
    options = TraceOptions(
        servers=servers, gpus_per_server=gpus, policy=policy, seed=seed, sample_s=inf, step_ms=step_ms
    )
    simulated = TraceRun(build_topology("section-vii", servers), options)
    if number:
        simulated.scheduler = same_gpus(list(simulated.cluster.rack_of), f"{seed}/{number}")
    drawn = draw(share, load, jobs, racks, seed)
    simulated.run(moved(drawn, int(move), seed) if move else drawn)
    row = trace_results.row(simulated, 0.0)
    return {
        "mean_jct_s": row["mean_jct_s"],
        "p95_jct_s": row["p95_jct_s"],
        "contention_percent": 100.0 * (row["network"]["contention_share"] or 0.0),
        "decision_p90_ms": row["settle_us"]["p90"] / 1e3,
    }


PAPER = Paper(
    name="mlcc",
    title="Dynamic Flow Scheduling for DNN Training Workloads in Data Centers (MLCC)",
    set_up=(
        "Servers of 8 GPUs, ten to a rack, racks under edge switches, 10, 20 and 40 Gbit/s by tier; a GPU is a worker's"
        " or a parameter server's. Jobs come in bursts, compute, exchange and begin again. VGG19 (549 MB), GPT2"
        " (1.2 GB), VGG16 (528 MB) and ResNet50 (98 MB); a ring has 3 workers, a parameter server 2 workers and 2"
        " servers (section VI). Baselines: MCS (coflows, start-after, one big switch) and CCML (hosts interleave their"
        " own jobs)."
    ),
    assumed=(
        "40 servers in 4 racks instead of 1000, 100 jobs of 6 to 24 iterations, GPUs anywhere; each model as likely, as"
        " a parameter server with probability PS share (the paper: two of the models each way, share 0.5).",
        "An iteration computes for 0.56, 0.9, 0.46 and 0.32 s (VGG19, GPT2, VGG16, ResNet50): the paper has none.",
        "Times between arrivals are Gamma with a squared coefficient of variation of 4; load is that of the racks'"
        " uplinks, the scarcest links, with every job at full speed.",
        "With the objective `jct` the policy knows how many iterations a job has left, as MCS knows a coflow's size."
        " The array engine has no ledger, which in switchd holds a job to two seconds ahead of an equal share.",
        "`mcs` waits for a whole stage of a parameter server and for whole chunks of a ring; `mcs-pipelined` does not.",
        "`mlcc` and `mlcc-open` send every message of every slot, in steps of 1 ms (the others: 5), and so run at load"
        " 0.9 only. Their options are compared on 8 jobs on one rack of ten servers at load 0.9 of the"
        " hosts' links (“few jobs”), the others beside them on the same jobs.",
    ),
    seeds=5,
    quick="16 jobs at load 0.7, few jobs: 5",
    runs=runs,
    perform=perform,
    claims=claims,
)
