"""Dally's claims, from the rows of dally.py's runs `ARRIVALS/RACKS/SCHEDULER`.

Beside a claim that does not hold stands the run that shows why, as a claim of its own that begins with “…” or in its
reason.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.results import Results

READINGS = {"dally": "Dally", "dally-move": "Dally with moves (ours)"}
SHOWN = ("dally", "dally-move", "tiresias", "gandiva", "gandiva-stay")
VARIANTS = ("dally", "dally-move", "dally-manual", "dally-nowait", "dally-full", "tiresias")

# Both are said at length above the table (dally.py).
STAYS = "; jobs stay across racks"
MENDED = "; Gandiva moves, too"


def claims(results: Results) -> Iterator[Claim]:
    racks = sorted({int(run.split("/")[1]) for run in results.rows if run.startswith("batch")})
    yield from _variants(results, racks)
    yield from _mild(results)
    for name, reading in READINGS.items():
        yield from _batch(results, racks, name, reading)
        yield from _own_loss(results, name, reading)
        yield from _poisson(results, name, reading)


def _hours(results: Results, arrivals: str, racks: int, key: str, names: Sequence[str] = SHOWN) -> str:
    """What the runs show, scheduler by scheduler."""
    shown = [name for name in names if f"{arrivals}/{racks}/{name}" in results.rows]
    found = ", ".join(f"{name} {results.mean(f'{arrivals}/{racks}/{name}', key):.0f}" for name in shown)
    return f"{key.removesuffix('_h').replace('_', ' ')} h at {racks} racks: {found}"


def _variants(results: Results, racks: list[int]) -> Iterator[Claim]:
    """The auto-tuner beside fixed timers: all without moves, which hide what a timer does."""

    def lower(key: str, size: int, name: str, than: str) -> list[float]:
        return results.lower(key, f"batch/{size}/{name}", f"batch/{size}/{than}")

    jct = _hours(results, "batch", 8, "mean_jct_h", VARIANTS)
    gain = lower("mean_jct_h", 8, "dally", "dally-manual")
    yield figure("Dally is below Dally-manual in mean JCT, 8 racks", "VI-5, Table II", 9.6, gain, jct)
    gain = lower("mean_jct_h", 8, "dally", "dally-nowait")
    yield order("Dally is below Dally-noWait in mean JCT, 8 racks", "VI-1", "below", gain, jct)
    for size in racks:
        span = _hours(results, "batch", size, "makespan_h", VARIANTS) + STAYS
        both = ("dally-nowait", "tiresias")
        blind = f"; {_hours(results, 'batch', size, 'mean_exchange_h', both)}: Tiresias counts machines, not racks"
        nowait = lower("makespan_h", size, *both)
        if size == 2:
            yield order("Dally-noWait is below Tiresias in makespan, 2 racks", "VI-1", "below", nowait, span)
        else:
            above = [-gain for gain in nowait]
            claim = f"Dally-noWait is above Tiresias in makespan, {size} racks"
            yield order(claim, "VI-1", "above", above, span + blind)
        gain = lower("makespan_h", size, "dally-full", "tiresias")
        yield order(f"Dally-fullyConsolidated is below Tiresias in makespan, {size} racks", "VI-1", "below", gain, span)
        for name, reading in READINGS.items():
            gain = lower("makespan_h", size, name, "dally-full")
            claim = f"{reading} is below Dally-fullyConsolidated in makespan, {size} racks"
            yield order(claim, "VI-1", "below", gain, span)


def _mild(results: Results) -> Iterator[Claim]:
    """Why Dally is above Dally-fullyConsolidated: without models that take long across racks, and without jobs that
    overtake, so that a job that waits for its tier keeps GPUs idle, it is below."""
    names = ("dally", "dally-full", "dally-queue", "dally-full-queue", "dally-nowait", "tiresias")

    def lower(key: str, size: int, name: str, than: str) -> list[float]:
        return results.lower(key, f"mild/{size}/{name}", f"mild/{size}/{than}")

    for size in (2, 8):
        span, jct = (_hours(results, "mild", size, key, names) for key in ("makespan_h", "mean_jct_h"))
        mild = f"… of models that take at most twice as long across racks, {size} racks"
        gain = lower("makespan_h", size, "dally", "dally-full")
        why = f"{span}; jobs that fit overtake those that wait for a tier, so waiting leaves no GPU idle"
        yield order(f"{mild}: Dally is below Dally-fullyConsolidated in makespan", "VI-1", "below", gain, why)
        for key, what, why in (("makespan_h", "makespan", span), ("mean_jct_h", "mean JCT", jct)):
            gain = lower(key, size, "dally-queue", "dally-full-queue")
            claim = f"{mild}, if none overtakes: Dally is below Dally-fullyConsolidated in {what}"
            yield order(claim, "VI-1", "below", gain, why)
        if size == 2:
            gain = lower("makespan_h", size, "dally-nowait", "tiresias")
            yield order(f"{mild}: Dally-noWait is below Tiresias in makespan", "VI-1", "below", gain, span)


def _batch(results: Results, racks: list[int], name: str, reading: str) -> Iterator[Claim]:
    def lower(key: str, size: int, than: str) -> list[float]:
        return results.lower(key, f"batch/{size}/{name}", f"batch/{size}/{than}")

    def why(key: str, size: int, than: str) -> str:
        found = _hours(results, "batch", size, key) + (STAYS if name == "dally" else "")
        if key == "p95_wait_h" and f"free/{size}/{name}" in results.rows:
            found += _least_wait(results, size, name)
        return found + (MENDED if than == "gandiva" else "")

    def ends(what: str, section: str, key: str, than: str, least: float | None, most: float) -> Iterator[Claim]:
        """The best size, and the worst where the paper has it."""
        sizes = [size for size in racks if not (than != "tiresias" and key == "mean_jct_h" and size == 2)]
        by_gain = sorted(sizes, key=lambda size: sum(lower(key, size, than)))
        for paper, size, word in ((most, by_gain[-1], "best"), (least, by_gain[0], "worst")):
            if paper is not None:
                claim = f"{reading} is below {_baseline(than)} in {what}, at {word} ({size} racks)"
                yield figure(claim, section, paper, lower(key, size, than), why(key, size, than))

    yield from ends("makespan", "VI-1, Fig. 7", "makespan_h", "tiresias", None, 69.0)
    for than in ("gandiva", "gandiva-stay"):
        yield from ends("makespan", "VI-1, Fig. 7", "makespan_h", than, None, 92.0)
    yield from ends("mean queueing", "VI-2", "mean_wait_h", "tiresias", 18.0, 31.0)
    yield from ends("P95 queueing", "VI-2, Fig. 8", "p95_wait_h", "tiresias", 58.0, 71.0)
    yield from ends("communication", "VI-3, Fig. 8", "mean_exchange_h", "tiresias", 53.0, 83.0)
    yield from ends("mean JCT", "VI-5, Fig. 13", "mean_jct_h", "tiresias", 19.0, 36.0)
    for than in ("gandiva", "gandiva-stay"):
        yield from ends("mean JCT", "VI-5, Fig. 13", "mean_jct_h", than, 23.0, 51.0)
    for key, paper in (("p95_jct_h", 66.5), ("p99_jct_h", 67.3)):
        claim = f"{reading} is below Tiresias in {key[:3].upper()} JCT, 8 racks"
        yield figure(claim, "VI-5, Table II", paper, lower(key, 8, "tiresias"), why(key, 8, "tiresias"))


def _least_wait(results: Results, size: int, name: str) -> str:
    """What is left to wait for where the network costs nothing: GPUs."""
    key = "p95_wait_h"
    gain = fmean(results.lower(key, f"free/{size}/{name}", f"batch/{size}/tiresias"))
    free_h = results.mean(f"free/{size}/{name}", key)
    return f"; if exchanges cost nothing, it is {free_h:.0f} h, {gain:.0f} % below: more no placement can save"


def _own_loss(results: Results, name: str, reading: str) -> Iterator[Claim]:
    """Where the paper says that Dally is behind."""
    jct = "mean_jct_h"
    claim = f"{reading} is above Gandiva in mean JCT, 2 racks: the paper's own loss"
    gain = results.lower(jct, f"batch/2/{name}", "batch/2/gandiva")
    why = _hours(results, "batch", 2, jct)
    why += (
        "; moves mend it" if name == "dally-move" else "; with durations that vary more the order turns: the next line"
    )
    yield figure(claim, "VI-5", -39.0, gain, why)
    above = [-gain for gain in results.lower(jct, f"varied/2/{name}", "varied/2/gandiva")]
    why = f"Gandiva's slices help short jobs past long ones; {_hours(results, 'varied', 2, jct)}"
    why += "; moves mend it" if name == "dally-move" else ""
    claim = f"… if durations vary more (σ 2.4 about the same mean): {reading} is above Gandiva"
    yield order(claim, "VI-5", "above", above, why)
    claim = f"{reading} is above Tiresias in mean JCT, Poisson arrivals, 4 racks: the paper's own loss"
    above = [-gain for gain in results.lower(jct, f"poisson/4/{name}", "poisson/4/tiresias")]
    yield order(claim, "VI-5", "above", above, f"{_hours(results, 'poisson', 4, jct)}; {_patterns(results)}")


def _patterns(results: Results) -> str:
    """The paper has its loss from one pattern of arrivals: is there one here?"""
    patterns = sorted({run.split("/")[0] for run in results.rows if run.startswith("poisson")})
    gains = [g for p in patterns for g in results.lower("mean_jct_h", f"{p}/4/dally", f"{p}/4/tiresias")]
    lost = sum(gain < 0.0 for gain in gains)
    return (
        f"the paper has it from one pattern of arrivals: of {len(gains)} drawn here dally is above in {lost}, and"
        f" {min(gains):.0f} to {max(gains):.0f} % below"
    )


def _poisson(results: Results, name: str, reading: str) -> Iterator[Claim]:
    def lower(key: str, arrivals: str, than: str) -> list[float]:
        return results.lower(key, f"{arrivals}/8/{name}", f"{arrivals}/8/{than}")

    gandiva = (83.7, 88.6)
    stays = STAYS if name == "dally" else ""
    for than, papers in (("tiresias", (34.6, 38.4)), ("gandiva", gandiva), ("gandiva-stay", gandiva)):
        for key, paper in zip(("mean_jct_h", "median_jct_h"), papers, strict=True):
            what = f"{key.split('_')[0]} JCT, Poisson arrivals, 8 racks"
            why = _hours(results, "poisson", 8, key) + stays
            if than != "tiresias":
                dense = fmean(lower(key, "dense", than))
                why += f"; how many jobs come decides, which the paper does not say: with twice as many {dense:.0f} %"
            claim = f"{reading} is below {_baseline(than)} in {what}"
            yield figure(claim, "VI-5, Table III", paper, lower(key, "poisson", than), why)


def _baseline(name: str) -> str:
    return "Gandiva whose jobs stay" if name == "gandiva-stay" else name.capitalize()
