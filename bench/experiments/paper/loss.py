"""Fig. 10: how much slower training becomes when packets are lost at random, by loss rate and control.

Each job is alone, so that the control answers to loss and not to other jobs. The promise is about 1 % loss. Single
packets must be lost and not bundles of them, so packets are sent one by one in all runs, also in those without loss.
"""

from dataclasses import replace

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json, change, percent, spread
from bench.experiments.paper_jobs import cluster, host_names, job, sped_up
from bench.jobs.cases import Case, iteration_s
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions
from bench.report.parts import Lines, Part, Table
from bench.testbed.impair import Impairment
from paceline.flowcore.model.scenario import JobSpec, Pattern

LOSSES = {"0.2": 0.002, "1": 0.01}  # what the paper's text speaks of, by the names that --case takes: in percent
PROMISED_AT = 0.01
PROMISED_COST = 1.03
PAPER_GBPS = 25.0
DURATION_S = 10.0
AT_1_PERCENT, AT_02_PERCENT = "VGG16 with 1 % loss", "VGG16 with 0.2 % loss under cubic and reno"


def jobs() -> list[JobSpec]:
    ring = JobSpec("ring", Pattern.ALLREDUCE, host_names()[:2], (), 12.5, 0.25, None, 0.0, 0.0)
    return [job(model, model, host_names()[:4]) for model in ("VGG16", "ResNet50")] + [ring]


def run(options: Options) -> Result:
    losses = [0.0, *(LOSSES[name] for name in options.cases or (("1",) if options.quick else LOSSES))]
    specs = jobs()[:1] if options.quick else jobs()
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    cases = {}
    for spec in specs:
        scenario = cluster(spec.name, PAPER_GBPS, [spec], hosts=4, duration_s=DURATION_S)
        scenario = sped_up(scenario, 2.0) if options.quick else scenario
        for loss in losses:
            impaired = replace(conditions, impairment=Impairment(loss=loss, single_packets=True))
            name = f"{spec.name}, {percent(loss)} lost"
            cases[spec.name, loss] = Case(name, scenario, options.controls, impaired, alone=False)
    made = options.make(list(cases.values()))
    rows = []
    for (name, loss), case in cases.items():
        for control, runs in made[case.name].together.items():
            time = Estimate.of([iteration_s(one.jobs[0], one.lasted_ns) for one in runs])
            rows.append({"job": name, "loss": loss, "control": control,
                         "iteration_s": time.mean, "half_width_s": time.half_width})  # fmt: skip
    return {"rows": rows, "checks": as_json(_checks(rows))}


def _costs(rows: list[Result]) -> dict[tuple[str, str], dict[float, float]]:
    """By job and control: at each loss, iteration time ÷ that without loss under the same control."""
    times: dict[tuple[str, str], dict[float, float]] = {}
    for row in rows:
        times.setdefault((row["job"], row["control"]), {})[row["loss"]] = row["iteration_s"]
    return {key: {loss: time_s / own[0.0] for loss, time_s in own.items()} for key, own in times.items()}


def _checks(rows: list[Result]) -> list[Check]:
    costs = _costs(rows)
    return [
        Check(
            f"{name}: 1 % loss costs paceline at most {percent(PROMISED_COST - 1, 0)}",
            f"{change(own[PROMISED_AT])} (cubic {change(costs[name, 'cubic'][PROMISED_AT])})",
            own[PROMISED_AT] <= PROMISED_COST,
        )
        for (name, control), own in costs.items()
        if control == "paceline" and PROMISED_AT in own
    ]


def here(result: Result) -> dict[str, str]:
    time_s = {(row["control"], row["loss"]): row["iteration_s"] for row in result["rows"] if row["job"] == "VGG16"}
    costs, found = _costs(result["rows"]), {}
    if ("cubic", PROMISED_AT) in time_s:
        faster = time_s["cubic", PROMISED_AT] / time_s["paceline", PROMISED_AT]
        found[AT_1_PERCENT] = f"{change(costs['VGG16', 'paceline'][PROMISED_AT])}, {faster:.1f} × as fast as cubic"
    if ("cubic", 0.002) in time_s:
        found[AT_02_PERCENT] = ", ".join(f"{tcp} {change(costs['VGG16', tcp][0.002])}" for tcp in ("cubic", "reno"))
    return found


def present(result: Result) -> list[Part]:
    costs = _costs(result["rows"])
    parts: list[Part] = []
    for name in dict.fromkeys(name for name, _ in costs):
        curves = {
            control: [(100 * loss, 1 / cost) for loss, cost in own.items()]
            for (of, control), own in costs.items()
            if of == name
        }
        parts.append(Lines(f"{name}: training speed, 1 without loss", "packets lost (%)", "speed", curves))
    times = {
        (row["job"], row["control"], row["loss"]): spread(row["iteration_s"], row.get("half_width_s"))
        for row in result["rows"]
    }
    losses = sorted({row["loss"] for row in result["rows"]})
    rows = [
        (f"{name}, {control}", *(times[name, control, loss] for loss in losses), change(own[losses[-1]]))
        for (name, control), own in costs.items()
    ]
    columns = ("", *map(percent, losses), f"{percent(losses[-1])} against none")
    return [*parts, Table("Iteration time by packets lost, s", columns, rows)]


EXPERIMENT = Experiment(
    name="loss",
    figure="Fig. 10",
    shows="what losing packets at random costs a job under each control",
    run=run,
    present=present,
    here=here,
    paper={
        AT_1_PERCENT: "4 % slower, 5.1 × as fast as cubic",
        AT_02_PERCENT: "62 % slower",
    },
    differs="The round trip on one machine is tens of µs, so TCP recovers sooner than elsewhere. "
    "Packets are sent one by one instead of in bundles, which costs CPU time and makes every control slower.",
    repeats=5,
    cases=tuple(LOSSES),
)
