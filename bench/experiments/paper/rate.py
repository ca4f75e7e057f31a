"""Fig. 7(a): does a flow send at the rate that the daemon asked for? With both backends, by bench/micro/rate.py.

The figure shows one flow on the staircase of rates; the numbers are over all slots of 1, 4 and 16 flows.
"""

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json
from bench.micro import rate
from bench.report.parts import Lines, Part, Table
from paceline.flowcore.model.units import NS_PER_MS

FLOWS = (1, 4, 16)
BIN_NS = 10 * NS_PER_MS
MEDIAN_LIMIT_PERCENT = 2.0
HELD = "the rate is held"


def run(options: Options) -> Result:
    flows = FLOWS[:1] if options.quick else FLOWS
    rounds = 1 if options.quick else rate.ROUNDS
    steps_to_do = [(backend, count) for backend in rate.BACKENDS for count in (0, *flows)]
    runs, staircases = [], {}
    for number, (backend, count) in enumerate(steps_to_do):
        options.progress(_name({"backend": backend, "flows": count or 1}), number / len(steps_to_do))
        if count:
            runs.append(rate.measure_rate(backend, rate.Setup(count, rounds)))
        else:
            staircases[backend] = _staircase(backend)
    checks = [
        Check.at_most(
            f"{_name(one)}: median error at most {MEDIAN_LIMIT_PERCENT:g} %",
            one["median_error_percent"],
            MEDIAN_LIMIT_PERCENT,
            "{:.2f} %",
        )
        for one in runs
    ]
    return {"runs": runs, "staircases": staircases, "checks": as_json(checks)}


def _staircase(backend: str) -> Result:
    """The rates asked for and achieved over time, of one flow."""
    (steps,), (curve,) = rate.walk(lambda undo_log: rate.BACKENDS[backend](undo_log, rate.LINK_BPS), rate.Setup(1, 1))
    begin_ns, end_ns = steps[0].start_ns, steps[-1].end_ns
    asked = [[(step.start_ns - begin_ns) / NS_PER_MS, step.rate_bps / 1e6] for step in steps]
    achieved = [
        [(at_ns - begin_ns) / NS_PER_MS, curve.between(at_ns, at_ns + BIN_NS) * 8 / BIN_NS * 1e3]
        for at_ns in range(begin_ns, end_ns - BIN_NS, BIN_NS)
    ]
    return {"asked_mbps": asked, "achieved_mbps": achieved}


def _name(run: Result) -> str:
    return f"{run['backend']}, {run['flows']} flow{'s' * (run['flows'] > 1)}"


def here(result: Result) -> dict[str, str]:
    errors = "; ".join(f"{one['median_error_percent']:.2f} % ({_name(one)})" for one in result["runs"])
    return {HELD: f"median error {errors}"}


def present(result: Result) -> list[Part]:
    parts: list[Part] = [
        Lines(f"One flow under {backend}", "ms", "Mbit/s",
              {"asked": one["asked_mbps"], "achieved": one["achieved_mbps"]}, steps=True)
        for backend, one in result["staircases"].items()
    ]  # fmt: skip
    keys = ("median_error_percent", "p95_error_percent", "settle_ms_p95")
    rows = [(_name(one), *(f"{one[key]:.2f}" for key in keys)) for one in result["runs"]]
    return [*parts, Table("Error per slot", ("", "median %", "95th percentile %", "settled ms, p95"), rows)]


EXPERIMENT = Experiment(
    name="rate",
    figure="Fig. 7(a)",
    shows="whether flows send what the daemon asked for, also where the rate jumps from slot to slot",
    run=run,
    present=present,
    here=here,
    paper={HELD: "precisely, also from 20 to 5 Gbit/s between slots of 50 ms (no number given)"},
    differs="Rates up to 900 Mbit/s and slots of 60 ms, judged by what the receiver gets.",
    repeats=None,
    controls=(),
)
