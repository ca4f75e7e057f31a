"""CASSINI, "Network-Aware Job Scheduling in Machine Learning Clusters", section 5. cassini_runs.py has its runs.

Two readings of Themis stand beside each other:

    themis    knows machines, racks and the rest; which servers of the best of these a job gets, is drawn
    lwf       keeps jobs together, wherever it can: less is left to gain
"""

from collections.abc import Iterator, Sequence

from paceline.sim.papers.cassini_runs import BY_SUM, SNAPSHOT, perform
from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.panel import Bars, Curves, Panel, bar, curve
from paceline.sim.papers.paper import Paper, Results

SCHEMES = {  # placement, gate
    "Themis": ("themis", ""),
    "shifts alone": ("themis", "+cassini"),
    "ranking alone": ("themis+cassini", ""),
    "Th+CASSINI": ("themis+cassini", "+cassini"),
    "Random": ("random", ""),
    "Random+CASSINI": ("random+cassini", "+cassini"),
    "Random, ranking alone": ("random+cassini", ""),
    "Random, ranked by a sum over links": (f"random+cassini{BY_SUM}", ""),
    "Random, shifts alone": ("random", "+cassini"),
    "Themis that packs": ("lwf", ""),
    "Themis that packs, with CASSINI": ("lwf+cassini", "+cassini"),
    "Themis, leases of a minute": ("themis-minute", ""),
    "Themis, leases of a minute, with CASSINI": ("themis-minute+cassini", "+cassini"),
}
PAIRS = {"Themis": "Th+CASSINI"} | {
    name: f"{name}, with CASSINI" for name in ("Themis that packs", "Themis, leases of a minute")
}
SNAPSHOTS = (2, 3)
CROWDED = f"{SNAPSHOT}2/crowded/fair+cassini"
PAPER_GAINS = {  # in %: 1.6× is 37.5 % below
    "poisson": ("5.2, Fig. 11", 37.5, 44.4),
    "dynamic": ("5.3, Fig. 13", 33.3, 54.5),
    "two-gpus": ("5.6, Fig. 16", 28.6, 47.4),
}
KEYS = {"mean_s": "mean", "p99_s": "p99"}


def run_of(trace: str, scheme: str, policy: str = "fair") -> str:
    placement, gate = SCHEMES[scheme]
    return f"{trace}/{placement}/{policy}{gate}"


def runs(quick: bool) -> Sequence[str]:
    both = ("Themis", "Th+CASSINI")
    found = [run_of(trace, scheme) for trace in ("poisson", "dynamic") for scheme in list(SCHEMES)[:5]]
    found += [run_of("dynamic", scheme) for scheme in list(SCHEMES)[5:]]
    found += [run_of("two-gpus", scheme) for scheme in both]
    found += [run_of("dynamic", scheme, "fair-penalty") for scheme in both]
    found += [run_of("steady", scheme) for scheme in ("Random", "Random, shifts alone")]
    found += [f"{trace}/lwf/dedicated" for trace in PAPER_GAINS]
    policies = ("fair", "fair+cassini", "dedicated")
    snapshots = [f"{SNAPSHOT}{count}/one-link/{policy}" for count in SNAPSHOTS for policy in policies]
    return [*found, *snapshots, CROWDED]


def claims(results: Results) -> Iterator[Claim]:
    yield from _gains(results)
    yield from _parts(results)
    yield from _snapshots(results)
    yield from _adjustments(results)


def _shown(results: Results, trace: str, key: str) -> str:
    found = {name: run_of(trace, name) for name in SCHEMES if run_of(trace, name) in results.rows}
    found["each job alone"] = f"{trace}/lwf/dedicated"
    means = ", ".join(f"{name} {1e3 * results.mean(run, key):.0f}" for name, run in found.items())
    return f"iteration in ms: {means}"


def _room(results: Results, trace: str, key: str, scheme: str = "Themis", policy: str = "fair") -> str:
    """What there is to gain: no schedule beats each job alone."""
    most = 100.0 * (
        1.0 - results.mean(f"{trace}/lwf/dedicated", key) / results.mean(run_of(trace, scheme, policy), key)
    )
    return f"each job alone is {most:.0f} % below {scheme}, and no schedule can gain more"


def _gains(results: Results) -> Iterator[Claim]:
    for trace, (section, *papers) in PAPER_GAINS.items():
        for (key, name), paper in zip(KEYS.items(), papers, strict=True):
            gain = results.lower(key, run_of(trace, "Th+CASSINI"), run_of(trace, "Themis"))
            why = f"{_room(results, trace, key)}; {_shown(results, trace, key)}"
            claim = f"Th+CASSINI is below Themis in {name} iteration, {trace} trace"
            yield figure(claim, section, float(paper), gain, why)
    section, *papers = PAPER_GAINS["dynamic"]
    for (key, name), paper in zip(KEYS.items(), papers, strict=True):
        for scheme in list(PAIRS)[1:]:
            gain = results.lower(key, run_of("dynamic", PAIRS[scheme]), run_of("dynamic", scheme))
            why = _room(results, "dynamic", key, scheme)
            if "leases" in scheme:
                moves = results.mean(run_of("dynamic", scheme), "moves")
                why += f"; {moves:.1f} jobs stopped or moved, with leases of ten minutes none: the jobs are shorter"
            yield figure(f"… with {scheme}: {name} iteration, dynamic trace", str(section), float(paper), gain, why)
        penalty = [run_of("dynamic", scheme, "fair-penalty") for scheme in ("Th+CASSINI", "Themis")]
        why = _room(results, "dynamic", key, policy="fair-penalty")
        claim = f"… where colliding costs what Ada-SRSF measured (fair-penalty): {name} iteration, dynamic trace"
        yield figure(claim, str(section), float(paper), results.lower(key, *penalty), why)


def _parts(results: Results) -> Iterator[Claim]:
    """What placement and shifts do by themselves, and how near jobs come to being alone."""
    for trace in ("poisson", "dynamic"):
        shown = _shown(results, trace, "mean_s")
        triples = zip(
            results.values(run_of(trace, "Themis"), "mean_s"),
            results.values(run_of(trace, "Th+CASSINI"), "mean_s"),
            results.values(f"{trace}/lwf/dedicated", "mean_s"),
            strict=True,
        )
        saved = [100.0 * (themis - ours) / (themis - alone) for themis, ours, alone in triples]
        claim = f"Of what jobs alone save, Th+CASSINI saves (“similar performance as Ideal”), {trace} trace"
        ours = run_of(trace, "Th+CASSINI")
        held, all_of = (results.mean(ours, key) for key in ("timed_job_minutes", "job_minutes"))
        why = f"only {held:.0f} of {all_of:.0f} minutes of jobs' time have links where all fit and no loop; {shown}"
        yield figure(claim, "5.2", 100.0, saved, why)
        gain = results.lower("mean_s", run_of(trace, "Th+CASSINI"), run_of(trace, "shifts alone"))
        yield order(f"Placement adds to what shifts gain, {trace} trace", "5.2, 5.3", "below", gain, shown)
        gain = results.lower("mean_s", run_of(trace, "Themis"), run_of(trace, "Random"))
        yield order(f"Random is above Themis, {trace} trace", "5.1", "above", gain, shown)
    yield from _random(results, shown)


def _random(results: Results, shown: str) -> Iterator[Claim]:
    """Random with CASSINI, and what its two parts lose by."""

    def beside_random(scheme: str, trace: str = "dynamic") -> list[float]:
        return results.lower("mean_s", run_of(trace, scheme), run_of(trace, "Random"))

    parts = [
        -sum(gains) / len(gains) for gains in map(beside_random, ("Random, ranking alone", "Random, shifts alone"))
    ]
    why = "ranking alone is {:.1f} % above and shifts alone {:.1f} %, for which see the next lines; ".format(*parts)
    claim = "Random+CASSINI is below Random (ours), dynamic trace"
    yield order(claim, "5.1", "below", beside_random("Random+CASSINI"), why + shown)
    ranked, shifted = beside_random("Random, ranking alone"), beside_random("Random, shifts alone")
    for claim, before, after, why in (
        (
            "… ranking costs Random less if it adds up what does not fit, over all links: by so many points",
            ranked,
            beside_random("Random, ranked by a sum over links"),
            "a mean over links does not say over how many: a sum ranks placements that meet few others first",
        ),
        (
            "… shifts cost Random less if jobs do not jitter: by so many points",
            shifted,
            beside_random("Random, shifts alone", "steady"),
            "times are longer than iterations by a slack for jitter, and by a grid; without jitter there is no slack",
        ),
    ):
        saved = [one - other for one, other in zip(after, before, strict=True)]
        yield order(claim, "ours", "less", saved, why, "points")


def _snapshots(results: Results) -> Iterator[Claim]:
    """Where the paper's gain is there: every job meets others all the time, and fits between them."""
    for count in SNAPSHOTS:
        run = f"{SNAPSHOT}{count}/one-link"
        found = ", ".join(
            f"{name} {1e3 * results.mean(f'{run}/{policy}', 'mean_s'):.0f}"
            for policy, name in (("fair", "unshifted"), ("fair+cassini", "shifted"), ("dedicated", "alone"))
        )
        why = f"mean iteration in ms: {found}"
        for key, name in KEYS.items():
            gain = results.lower(key, f"{run}/fair+cassini", f"{run}/fair")
            claim = f"Shifted jobs are below unshifted ones in {name} iteration, {count} like jobs on one link (ours)"
            yield figure(claim, "5.3", 33.3, gain, why) if key == "mean_s" else order(claim, "5.3", "below", gain, why)


def _adjustments(results: Results) -> Iterator[Claim]:
    for run, name in [
        *((f"{SNAPSHOT}{count}/one-link/fair+cassini", f"{count} like jobs on one link") for count in SNAPSHOTS),
        *((run_of(trace, "Th+CASSINI"), f"{trace} trace") for trace in ("poisson", "dynamic")),
    ]:
        rates = results.values(run, "adjustments_per_minute")
        minutes = results.mean(run, "timed_job_minutes")
        why = (
            f"{sum(rates) / len(rates):.1f} a minute of a job that is held to times ({minutes:.0f} such minutes a seed)"
        )
        if not run.startswith(SNAPSHOT):
            crowded = results.mean(CROWDED, "adjustments_per_minute")
            why += (
                f"; jobs that fit but for a twentieth are late: two like jobs that fill 104 %, {crowded:.0f} a minute"
            )
        fewer = [2.0 - rate for rate in rates]
        yield order(f"Adjustments are fewer than two a minute, {name}", "5.7, Fig. 17", "below 2", fewer, why, "fewer")


def panels(results: Results) -> Sequence[Panel]:
    shown = ("Themis", "Th+CASSINI", "Themis that packs", "Random")
    curves = [
        Curves(
            f"{figure_}: {trace} trace",
            "iteration ms",
            {name: curve(results, run_of(trace, name), 1e3) for name in shown if run_of(trace, name) in results.rows}
            | {"each job alone": curve(results, f"{trace}/lwf/dedicated", 1e3)},
        )
        for trace, figure_ in (("poisson", "Fig. 11(b)"), ("dynamic", "Fig. 13(a)"))
    ]
    like = {
        name: [bar(results, f"{SNAPSHOT}{count}/one-link/{policy}", "mean_s", 1e3) for count in SNAPSHOTS]
        for name, policy in (("unshifted", "fair"), ("shifted", "fair+cassini"), ("alone", "dedicated"))
    }
    labels = tuple(f"{count} like jobs" for count in SNAPSHOTS)
    return (*curves, Bars("one link (ours)", "mean iteration ms", labels, like))


PAPER = Paper(
    name="cassini",
    title="CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters",
    set_up=(
        "24 servers of one GPU, 50 Gbit/s, 13 switches, 2:1 oversubscribed. Jobs of 1 to 12 workers of 13 models with"
        " equal probability run for 200 to 1000 iterations; they come as Poisson at a load of 80 to 100 %, or a second"
        " set comes while a first runs (dynamic). Themis with leases of ten minutes, and up to 10 candidates. Themis"
        " and Pollux with and without CASSINI, Random, and each job alone."
    ),
    assumed=(
        "The nine data-parallel models of Table 3 in rings; iterations drawn from 0.15 to 0.5 s, a fifth of it at least"
        " computing; jitter 1 %; loads of 80, 90 and 100 % in turn, one a seed; 24 jobs; two servers to a switch.",
        "Themis knows whether a job is on a machine, in a rack or across racks, and draws among servers that are equal"
        " in that (`themis`), or it packs (`lwf`, without leases). Jobs keep their number of workers; Pollux is not"
        " repeated, and of model parallelism nothing.",
        "Sharing is max-min (`fair`), which loses nothing when jobs collide; `fair-penalty` loses what Ada-SRSF"
        " measured.",
        "Jobs are held to times where all their links fit (score 0.95 at least) and there is no loop. An adjustment is"
        " a communication that is ready more than 5 % of an iteration after its time, but for the first at that time.",
    ),
    seeds=5,
    quick="12 jobs, a third of their iterations",
    runs=runs,
    perform=perform,
    claims=claims,
    panels=panels,
)
