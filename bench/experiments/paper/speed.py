"""Fig. 9: training speed of each model by bandwidth, all four models on six hosts, among non-ML flows."""

from statistics import fmean

from bench.experiments.experiment import Experiment, Options, Result, change
from bench.experiments.paper_jobs import BATCH, MODELS, WITH_OTHERS, cluster, queued_job, sped_up
from bench.jobs.cases import Case, iteration_s
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions, JobsRun
from bench.report.parts import Bars, Part, Table
from paceline.flowcore.model.scenario import Scenario

PAPER_GBPS = (10.0, 16.0, 24.0)
PAPER_SAYS = {10.0: "+22 %", 24.0: "+14.2 %"}  # VGG19 against cubic
DURATION_S = 60.0  # a GPT2 takes up to ten seconds for an iteration at 10 Gbit/s


def one_of_each(gbps: float, options: Options) -> Scenario:
    scenario = cluster("models", gbps, [queued_job(model, model) for model in MODELS], duration_s=DURATION_S)
    return sped_up(scenario, 3.0) if options.quick else scenario


def samples_per_s(run: JobsRun, name: str) -> float:
    one = next(one for one in run.jobs if one.spec.name == name)
    return BATCH * len(one.spec.workers) / iteration_s(one, run.lasted_ns)


def run(options: Options) -> Result:
    bandwidths = PAPER_GBPS[:1] if options.quick else PAPER_GBPS
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed, shared=WITH_OTHERS)
    cases = [
        Case(_name(gbps), one_of_each(gbps, options), options.controls, conditions, alone=False) for gbps in bandwidths
    ]
    made = options.make(cases)
    rows = []
    for case in cases:
        for control, runs in made[case.name].together.items():
            for model in MODELS:
                speed = Estimate.of([samples_per_s(one, model) for one in runs])
                rows.append({"bandwidth": case.name, "control": control, "model": model,
                             "samples_per_s": speed.mean, "half_width": speed.half_width})  # fmt: skip
    return {"rows": rows}


Found = dict[tuple[str, str, str], Result]


def _found(result: Result) -> Found:
    return {(row["bandwidth"], row["control"], row["model"]): row for row in result["rows"]}


def here(result: Result) -> dict[str, str]:
    found = _found(result)
    measured = [gbps for gbps in PAPER_SAYS if (_name(gbps), "cubic", "VGG19") in found]
    return {_against_cubic(gbps): change(_gain(found, _name(gbps), "VGG19")) for gbps in measured}


def _name(gbps: float) -> str:
    return f"{gbps:g} Gbit/s"


def _against_cubic(gbps: float) -> str:
    return f"VGG19 against cubic, {gbps:g} Gbit/s"


def present(result: Result) -> list[Part]:
    found = _found(result)
    bandwidths, controls, models = (list(dict.fromkeys(key[at] for key in found)) for at in range(3))
    parts: list[Part] = []
    for model in models:
        bars = {
            control: [_spread(found[bandwidth, control, model]) for bandwidth in bandwidths] for control in controls
        }
        parts.append(Bars(f"{model}: training speed", "samples/s", bandwidths, bars))
    lines = []
    for model in models:
        gains = [_gain(found, bandwidth, model) for bandwidth in bandwidths]
        lines.append((model, *map(change, gains), change(fmean(gains))))
    return [*parts, Table("paceline against cubic", ("", *bandwidths, "mean"), lines)]


def _spread(row: Result) -> tuple[float, float | None]:
    return row["samples_per_s"], row["half_width"]


def _gain(found: Found, bandwidth: str, model: str) -> float:
    ours, cubics = (found[bandwidth, control, model]["samples_per_s"] for control in ("paceline", "cubic"))
    return float(ours / cubics)


EXPERIMENT = Experiment(
    name="speed",
    figure="Fig. 9",
    shows="which models gain, and whether they gain more where bandwidth is short",
    run=run,
    present=present,
    here=here,
    paper={
        **{_against_cubic(gbps): gain for gbps, gain in PAPER_SAYS.items()},
        "ResNet50": "least, because it computes most of the time",
    },
    differs="Models and bandwidths are the paper's divided by 62.5. A sample is one of 64 per worker and iteration; "
    "computing times are ours, so speeds compare with each other and not with the paper's.",
)
