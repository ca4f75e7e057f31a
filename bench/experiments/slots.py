"""Fig. 7(b): how long should a slot be? Mean job completion time by slot length and bandwidth."""

from bench.experiments.jct import arrivals, jct_s
from bench.experiments.shape import Experiment, Options, Result, change
from bench.jobs_cases import Case
from bench.jobs_report import Estimate
from bench.jobs_run import Conditions
from bench.report.parts import Lines, Part, Table

SLOTS_MS = (15.0, 30.0, 60.0, 120.0, 240.0)
PAPER_GBPS = (10.0, 25.0)
CONTROLS = ("mlcc", "paceline")  # those that have slots
JOBS = 5
BEST = "best slot length"


def run(options: Options) -> Result:
    slots_ms, bandwidths = (SLOTS_MS[1:4:2], PAPER_GBPS[1:]) if options.quick else (SLOTS_MS, PAPER_GBPS)
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
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
    points = [
        {"paper_gbps": gbps, "slot_ms": slot_ms, "control": control, "mean_jct_s": Estimate.of(jct_s(runs)).mean}
        for (gbps, slot_ms), case in cases.items()
        for control, runs in made[case.name].together.items()
    ]
    return {"points": points}


def _curves(result: Result) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in result["points"]:
        name = f"{point['control']}, {point['paper_gbps']:g} Gbit/s"
        curves.setdefault(name, []).append((point["slot_ms"], point["mean_jct_s"]))
    return curves


def here(result: Result) -> dict[str, str]:
    best = {name: min(curve, key=lambda point: point[1])[0] for name, curve in _curves(result).items()}
    return {BEST: "; ".join(f"{name}: {slot_ms:g} ms" for name, slot_ms in best.items())}


def present(result: Result) -> list[Part]:
    curves = _curves(result)
    best = [
        (name, f"{slot_ms:g}", f"{least:.2f}", f"{change(max(jct for _, jct in curve) / least)}")
        for name, curve in curves.items()
        for slot_ms, least in [min(curve, key=lambda point: point[1])]
    ]
    columns = ("", "best slot ms", "mean JCT s", "worst slot costs")
    lines = Lines("Mean job completion time by slot length", "slot (ms)", "s", curves)
    return [lines, Table("Best slot length", columns, best)]


EXPERIMENT = Experiment(
    name="slots",
    figure="Fig. 7(b)",
    shows="how much the length of a slot matters: short ones cost negotiation, long ones delay decisions",
    run=run,
    present=present,
    here=here,
    paper={BEST: "60 ms"},
    differs="Bandwidths are named as in the paper; here they are divided by 62.5, as the models are.",
    controls=CONTROLS,
)
