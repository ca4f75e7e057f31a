"""What the mixes must show: claims with thresholds, decided from slowdowns.

    saving      1 − paceline's mean slowdown ÷ the best TCP's, of the means over the repeats

`CRUDE` is what a throw-away controller reached on the five mixes (two hosts, one run each, another machine; it polled
the jobs every 2 ms and served the earliest deadline first). Slowdowns are ratios, so they compare between machines.
"""

from statistics import fmean

from bench.experiments.experiment import Check, Result, change, percent
from bench.jobs.tcp_control import TCP

CRUDE = {"mix-1": 1.232, "mix-2": 1.127, "mix-3": 1.007, "mix-4": 1.168, "mix-5": 1.380}
MEASURES = {"steady state": "mean_slowdown", "whole run": "whole_run_slowdown"}

Slowdowns = dict[str, dict[str, float]]  # scenario -> control


def acceptance_checks(measured: Result) -> list[Check]:
    found: list[Check] = []
    for period, key in MEASURES.items():
        slowdowns = {
            name: {control["control"]: control[key] for control in one["controls"]} for name, one in measured.items()
        }
        found += _mix_checks(slowdowns, period) + _other_checks(slowdowns, period)
    return found


def best_tcp(of: dict[str, float]) -> float:
    return min(of[control] for control in TCP)


def _mix_checks(slowdowns: Slowdowns, period: str) -> list[Check]:
    mixes = {name: slowdowns[name] for name in CRUDE if name in slowdowns}
    saved = {name: 1 - of["paceline"] / best_tcp(of) for name, of in mixes.items()}
    saved_bbr = {name: 1 - of["paceline"] / of["bbr"] for name, of in mixes.items()}
    found = [
        Check(f"{name}, {period}: at least 5 % below the best TCP", percent(part), part >= 0.05)
        for name, part in saved.items()
    ]
    for rival, parts, least in (("the best TCP", saved, 0.08), ("bbr", saved_bbr, 0.12)):
        mean = fmean(parts.values())
        passed = mean >= least if len(parts) == len(CRUDE) else None
        claim = f"all mixes, {period}: on average at least {percent(least, 0)} below {rival}"
        found.append(Check(claim, percent(mean), passed))
    if period == "steady state":
        found += [
            Check(f"{name}: no worse than the crude controller's {CRUDE[name]:.3f}",
                  f"{of['paceline']:.3f}", of["paceline"] <= CRUDE[name])
            for name, of in mixes.items()
        ]  # fmt: skip
    return found


def _other_checks(slowdowns: Slowdowns, period: str) -> list[Check]:
    found = []
    if same := slowdowns.get("identical"):
        saved = 1 - same["paceline"] / same["bbr"]
        found.append(Check(f"identical, {period}: at least 20 % below bbr", percent(saved), saved >= 0.2))
        if period == "steady state":
            above = same["paceline"] / best_tcp(same)
            claim = "identical: at most 2 % above the best TCP's steady state"
            found.append(Check(claim, change(above), above <= 1.02))
    for name in ("ps-and-ring", "two-tors"):
        if of := slowdowns.get(name):
            saved = 1 - of["paceline"] / best_tcp(of)
            found.append(Check(f"{name}, {period}: better than the best TCP", percent(saved), saved > 0))
    return found
