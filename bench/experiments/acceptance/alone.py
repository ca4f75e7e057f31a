"""A job alone: one that has the network to itself must not be slower for being controlled."""

from dataclasses import replace

from bench.experiments.acceptance.mixes import scenario_named
from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, change, spread
from bench.experiments.paper_jobs import cluster, host_names, job, sped_up
from bench.jobs.cases import Case, iteration_s
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import Pattern, Scenario

LIMIT = 1.01
PAPER_GBPS, DURATION_S = 25.0, 15.0  # of the job with servers
KINDS = {Pattern.ALLREDUCE: "all-reduce", Pattern.PS: "parameter server"}


def scenarios() -> list[Scenario]:
    """Each job of a mix, and one that exchanges with two servers."""
    both, model = scenario_named("mix-1"), "VGG16"
    with_servers = cluster(model, PAPER_GBPS, [job(model, model, host_names()[:4])], hosts=4, duration_s=DURATION_S)
    return [*(replace(both, jobs=(spec,)) for spec in both.jobs), with_servers]


def run(options: Options) -> Result:
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    cases = {}
    for scenario in scenarios()[:1] if options.quick else scenarios():
        [spec] = scenario.jobs
        name = f"{spec.model_mb:g} MB, {KINDS[spec.pattern]}"
        own = sped_up(scenario, 2.5) if options.quick else scenario
        cases[name] = Case(name, own, options.controls, conditions, alone=False)
    made = options.make(list(cases.values()))
    rows, checks = [], []
    for name in cases:
        runs = made[name].together
        times = {
            control: Estimate.of([iteration_s(one.jobs[0], one.lasted_ns) for one in own])
            for control, own in runs.items()
        }
        rows += [
            {"job": name, "control": control, "iteration_s": time.mean, "half_width_s": time.half_width}
            for control, time in times.items()
        ]
        ratio = times["paceline"].mean / times["cubic"].mean
        checks.append(Check(f"{name} alone: at most 1 % slower under paceline than without (cubic)",
                            change(ratio, 2), ratio <= LIMIT))  # fmt: skip
    return {"rows": rows, "checks": as_json(checks)}


def present(result: Result) -> list[Part]:
    rows = result["rows"]
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    bars = {
        control: [(row["iteration_s"], row["half_width_s"]) for row in rows if row["control"] == control]
        for control in dict.fromkeys(row["control"] for row in rows)
    }
    lines = [
        (control, *(spread(mean, half_width, digits=4) for mean, half_width in own)) for control, own in bars.items()
    ]
    return [Bars("One job alone: iteration time", "s", jobs, bars), Table("Iteration time, s", ("", *jobs), lines)]


EXPERIMENT = Experiment(
    name="alone",
    figure="",
    shows="whether a job with the network to itself is as fast as without Paceline",
    run=run,
    present=present,
    repeats=5,
)
