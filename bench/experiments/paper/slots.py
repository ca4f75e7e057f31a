"""Fig. 7(b): how long should a slot be? Mean job completion time by slot length and bandwidth."""

from bench.experiments.experiment import Experiment, Options, Result, change, spread
from bench.experiments.paper.jct import arrivals, jct_s, unfinished
from bench.experiments.paper_jobs import WITH_OTHERS
from bench.jobs.cases import Case
from bench.jobs.report import Estimate
from bench.jobs.run import Conditions
from bench.report.parts import Lines, Part, Table

SLOTS_MS = (15.0, 30.0, 60.0, 120.0, 240.0)
PAPER_GBPS = (10.0, 25.0)
CONTROLS = ("mlcc", "paceline")  # those that have slots
JOBS = 5
BEST = "best slot length"


def run(options: Options) -> Result:
    slots_ms, bandwidths = (SLOTS_MS[1:4:2], PAPER_GBPS[1:]) if options.quick else (SLOTS_MS, PAPER_GBPS)
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed, shared=WITH_OTHERS)
    cases = {
        (gbps, slot_ms): Case(
            f"{gbps:g} Gbit/s, {slot_ms:g} ms",
            arrivals(gbps, options, jobs=JOBS, slot_ms=slot_ms),
            CONTROLS,
            conditions,
            alone=False,
        )
        for gbps in bandwidths
        for slot_ms in slots_ms
    }
    made = options.make(list(cases.values()))
    points = []
    for (gbps, slot_ms), case in cases.items():
        for control, runs in made[case.name].together.items():
            jct = Estimate.of(jct_s(runs))
            points.append({"paper_gbps": gbps, "slot_ms": slot_ms, "control": control,
                           "mean_jct_s": jct.mean, "half_width_s": jct.half_width,
                           "unfinished": unfinished(runs)})  # fmt: skip
    return {"points": points}


def _curves(result: Result) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in result["points"]:
        curves.setdefault(_name(point), []).append((point["slot_ms"], point["mean_jct_s"]))
    return curves


def _name(point: Result) -> str:
    return f"{point['control']}, {point['paper_gbps']:g} Gbit/s"


def here(result: Result) -> dict[str, str]:
    best = {name: min(curve, key=lambda point: point[1])[0] for name, curve in _curves(result).items()}
    return {BEST: "; ".join(f"{name}: {slot_ms:g} ms" for name, slot_ms in best.items())}


def present(result: Result) -> list[Part]:
    curves = _curves(result)
    shown = {
        (_name(point), point["slot_ms"]): ("≥ " if point["unfinished"] else "")
        + spread(point["mean_jct_s"], point["half_width_s"], digits=2)
        for point in result["points"]
    }
    slots_ms = sorted({slot_ms for _, slot_ms in shown})
    rows = []
    for name, curve in curves.items():
        best_ms, least_s = min(curve, key=lambda point: point[1])
        worst = change(max(jct for _, jct in curve) / least_s)
        rows.append((name, *(shown[name, slot_ms] for slot_ms in slots_ms), f"{best_ms:g}", worst))
    columns = ("", *(f"{slot_ms:g} ms" for slot_ms in slots_ms), "best slot ms", "worst slot costs")
    title = "Mean job completion time by slot length"
    return [Lines(title, "slot (ms)", "s", curves), Table(f"{title}, s", columns, rows)]


EXPERIMENT = Experiment(
    name="slots",
    figure="Fig. 7(b)",
    shows="how much the length of a slot matters: short ones cost negotiation, long ones delay decisions",
    run=run,
    present=present,
    here=here,
    paper={BEST: "60 ms"},
    differs="Bandwidths are named as in the paper; here they are divided by 62.5, as the models are. "
    "≥: a job was cut off after two minutes, and counts with the time it has had.",
    controls=CONTROLS,
)
