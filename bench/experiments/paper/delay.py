"""Fig. 12: how long a host waits for its switch (a: bench.micro.negotiate), and how long it takes to decide (b)."""

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json
from bench.micro.allocate import measure_allocate, measure_decisions
from bench.micro.negotiate import Setup, measure
from bench.report.parts import Bars, Part, Table

PAPER_P90_NEGOTIATION_MS = 6.2
PAPER_P90_DECISION_MS = 1.5
SETUPS = {"6 hosts, 1 switch": (6, 1), "6 hosts, 3 switches": (6, 3), "48 hosts, 1 switch": (48, 1)}
NEGOTIATION, DECISION = "negotiation, 90th percentile", "decision, 90th percentile"
SLOTS, QUICK_SLOTS = 500, 40


def run(options: Options) -> Result:
    setups = dict(list(SETUPS.items())[:1]) if options.quick else SETUPS
    negotiations = {}
    for number, (name, (hosts, switches)) in enumerate(setups.items()):
        setup = Setup(hosts, switches, QUICK_SLOTS if options.quick else SLOTS, policy="mlcc", seed=options.seed)

        def progress(done: int, total: int) -> None:
            options.progress(f"negotiating: {name}", (number + done / total) / len(setups))  # noqa: B023

        negotiations[name] = measure(setup, progress)
    decisions = measure_decisions(options.seed, decisions=200 if options.quick else 1000)
    per_flow_us = measure_allocate(options.seed, flows=200 if options.quick else 2000)["us_per_flow"]
    first = next(iter(negotiations.values()))
    checks = [
        Check.at_most(
            f"90 % of negotiations within the paper's {PAPER_P90_NEGOTIATION_MS} ms",
            float(str(first["p90_ms"])), PAPER_P90_NEGOTIATION_MS, "{:.2f} ms",
        ),
        Check.at_most(
            f"90 % of decisions within the paper's {PAPER_P90_DECISION_MS} ms",
            decisions["p90_decision_us"] / 1e3, PAPER_P90_DECISION_MS, "{:.3f} ms",
        ),
    ]  # fmt: skip
    return {"negotiations": negotiations, "us_per_flow": per_flow_us, **decisions, "checks": as_json(checks)}


def here(result: Result) -> dict[str, str]:
    p90_ms = "; ".join(f"{one['p90_ms']:.1f} ms ({name})" for name, one in result["negotiations"].items())
    return {NEGOTIATION: p90_ms, DECISION: f"{result['p90_decision_us'] / 1e3:.2f} ms (10 flows)"}


def present(result: Result) -> list[Part]:
    runs = result["negotiations"]
    keys = {"median": "p50_ms", "90 %": "p90_ms", "99 %": "p99_ms"}
    bars = {name: [(one[key], None) for key in keys.values()] for name, one in runs.items()}
    rows = [
        (name, *(f"{one[key]:.2f}" for key in keys.values()), f"{one['missed_slots']} of {one['negotiations']}")
        for name, one in runs.items()
    ]
    planning = [(f"one flow, {horizon} slots ahead", f"{us:.1f}") for horizon, us in result["us_per_flow"].items()]
    planning.append(("10 flows of a host, 90th percentile", f"{result['p90_decision_us']:.1f}"))
    return [
        Bars(
            "From the message to the plan made from its answer", "ms", list(keys), bars, line=PAPER_P90_NEGOTIATION_MS
        ),
        Table("Negotiation, ms", ("", *keys, "missed"), rows),
        Table("Decision", ("", "µs"), planning),
    ]


EXPERIMENT = Experiment(
    name="delay",
    figure="Fig. 12",
    shows="how much of a slot negotiating and deciding take",
    run=run,
    present=present,
    here=here,
    paper={NEGOTIATION: "6.2 ms", DECISION: "1.5 ms"},
    differs="Real gRPC and real switchd processes, but over loopback, and one process plays all hosts: hosts and "
    "switches compete for this machine's cores, and no cable adds its delay.",
    repeats=None,
    controls=(),
)
