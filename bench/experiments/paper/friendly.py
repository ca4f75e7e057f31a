"""Fig. 11(b): a training job and a TCP flow that no daemon controls, on one link. Does the flow get its part?

The flow sends as fast as it can for three seconds of every four. Its part is what it gets beside the job under cubic.
"""

from statistics import fmean

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, percent, spread
from bench.experiments.paper.turns import JobRates, rate_layers
from bench.experiments.paper_jobs import cluster, gbps_here, host_names, job, sped_up
from bench.jobs.cases import Case, iteration_s
from bench.jobs.control import Control
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import CrossTraffic

PAPER_GBPS = 25.0
EVERY_S, LASTS_S = 4.0, 3.0
DURATION_S = 19.5  # the fifth burst has ended
LEAST_PART = 0.9
BESIDE_A_JOB = "a TCP flow beside a VGG19 job"


def _with_others(control: Control) -> JobRates:
    return JobRates(control, others=True)


def run(options: Options) -> Result:
    here, there = host_names()[:2]
    faster = 4.0 if options.quick else 1.0
    flow = CrossTraffic(here, there, EVERY_S / faster, (LASTS_S / faster,) * 2, gbps_here(PAPER_GBPS))
    spec = job("VGG19", "VGG19", (here, there))
    scenario = cluster("friendly", PAPER_GBPS, [spec], hosts=2, duration_s=DURATION_S, cross_traffic=[flow])
    scenario = sped_up(scenario, DURATION_S / faster) if options.quick else scenario
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    case = Case("friendly", scenario, options.controls, conditions, alone=False, observer=_with_others)
    runs = options.make([case])["friendly"]
    rows: list[Result] = []
    for control, own in runs.together.items():
        flow_mbps = Estimate.of([8 * one.cross_traffic_bytes[0] / one.lasted_ns * 1e3 for one in own])
        mean_s = fmean(iteration_s(one.jobs[0], one.lasted_ns) for one in own)
        rows.append({"control": control, "flow_mbps": flow_mbps.mean, "half_width_mbps": flow_mbps.half_width,
                     "iteration_s": mean_s})  # fmt: skip
    share = _share(rows)
    check = Check(f"beside paceline the flow gets at least {percent(LEAST_PART, 0)} of what it gets beside cubic",
                  percent(share), share >= LEAST_PART)  # fmt: skip
    first = {control: observed[0] for control, observed in runs.observations.items()}
    return {"rows": rows, "films": first, "capacity_mbps": 1e3 * gbps_here(PAPER_GBPS), "checks": as_json([check])}


def _share(rows: list[Result]) -> float:
    gets = {row["control"]: row["flow_mbps"] for row in rows}
    return float(gets["paceline"] / gets["cubic"])


def here(result: Result) -> dict[str, str]:
    return {BESIDE_A_JOB: f"beside paceline the flow gets {percent(_share(result['rows']))} of its part beside cubic"}


def present(result: Result) -> list[Part]:
    rows = result["rows"]
    bars = {row["control"]: [(row["flow_mbps"], row["half_width_mbps"])] for row in rows}
    lines = [
        (row["control"], spread(row["flow_mbps"], row["half_width_mbps"], digits=1), f"{row['iteration_s']:.3f}")
        for row in rows
    ]
    table = Table("Together", ("", "flow Mbit/s", "job's iteration s"), lines)
    return [*rate_layers(result), Bars("What the flow gets", "Mbit/s", ["flow"], bars), table]


EXPERIMENT = Experiment(
    name="friendly",
    figure="Fig. 11(b)",
    shows="whether a flow that no daemon controls keeps its part of the link beside a controlled job",
    run=run,
    present=present,
    here=here,
    paper={BESIDE_A_JOB: "both get a part (a picture, no number)"},
    differs="0.4 Gbit/s instead of 25; the flow comes and goes instead of coming once.",
    repeats=5,
)
