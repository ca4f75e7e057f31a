"""MLCC's claims, and ours beside them, from the rows of mlcc.py's runs `SHARE/LOAD/POLICY`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from paceline.flowcore.policy.mlcc import OPTIONS
from paceline.sim.interval import interval
from paceline.sim.papers.claim import Claim, figure, order
from paceline.sim.papers.paper import Results

JCT = "mean_jct_s"
FEW = "few"
READINGS = ("mlcc", "mlcc-open")
BASELINES = (("mcs", 33.6), ("ccml", 23.3))  # how far the paper is below, in %
MOST_ABOVE_FAIR = 2.0  # percent


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows by share, load and policy."""

    results: Results

    @property
    def shares(self) -> list[str]:
        return sorted({run.split("/")[0] for run in self.results.rows})

    @property
    def loads(self) -> list[str]:
        """Of runs with all jobs, the plain ones."""
        return sorted({load for load in self._all_loads() if "~" not in load and "@" not in load} - {FEW})

    def again(self, mark: str) -> list[str]:
        """~1, ~2, ...: how traces were moved; @1, @2, ...: the draws of GPUs."""
        found = {load.partition(mark)[2] for load in self._all_loads() if mark in load}
        return [f"{mark}{number}" for number in sorted(found, key=int)]

    def by_seed(self, share: str, load: str, mark: str) -> list[tuple[float, ...]]:
        """Of each seed, by how many percent paceline is below fair, each time that its trace was run again."""
        gains = [self.lower(share, f"{load}{number}", "paceline", "fair") for number in self.again(mark)]
        return list(zip(*gains, strict=True))

    def _all_loads(self) -> set[str]:
        return {run.split("/")[1] for run in self.results.rows}

    def lower(self, share: str, load: str, policy: str, than: str) -> list[float]:
        """By how many percent, seed by seed."""
        return self.results.lower(JCT, f"{share}/{load}/{policy}", f"{share}/{load}/{than}")

    def seconds(self, share: str, load: str, *policies: str) -> str:
        means = (f"{policy} {self.results.mean(f'{share}/{load}/{policy}', JCT):.1f}" for policy in policies)
        return f"mean JCT in s: {', '.join(means)}"


def claims(results: Results) -> Iterator[Claim]:
    runs = Runs(results)
    for share in runs.shares:
        for load in runs.loads:
            yield from _beside_baselines(runs, share, load)
            yield from _ours(runs, share, load)
        for load in (*runs.loads, FEW):
            if f"{share}/{load}/{READINGS[0]}" in results.rows:
                yield from _readings(runs, share, load)
    yield from _points(runs)
    for policy in ("paceline", "paceline:jct"):
        yield _every_trace(runs, policy)
    yield from lucky_claims(runs)


def _beside_baselines(runs: Runs, share: str, load: str) -> Iterator[Claim]:
    start_after = runs.lower(share, load, "mcs-pipelined", "mcs")
    hosts_alone = runs.lower(share, load, "fair", "ccml")
    reasons = {
        "mcs": f"start-after, which the paper blames, costs MCS {fmean(start_after):.1f} %",
        "ccml": f"what CCML does not see costs it {fmean(hosts_alone):.1f} % beside fair",
    }
    for than, paper in BASELINES:
        known = fmean(runs.lower(share, load, "paceline:jct", than))
        seconds = runs.seconds(share, load, "paceline", than)
        why = f"{seconds}; {reasons[than]}; with the objective jct paceline is {known:.1f} % below"
        claim = f"paceline is below {than.upper()} in mean JCT, PS share {share}, load {load}"
        yield figure(claim, "VII-A, Fig. 15", paper, runs.lower(share, load, "paceline", than), why)
    claim = f"Start-after costs MCS bandwidth: pipelined it is below, PS share {share}, load {load}"
    yield order(claim, "VII-A", "below", start_after, runs.seconds(share, load, "mcs", "mcs-pipelined"))


def _ours(runs: Runs, share: str, load: str) -> Iterator[Claim]:
    where = f"PS share {share}, load {load}"
    claim = f"paceline is at most {MOST_ABOVE_FAIR:.0f} % above fair sharing in mean JCT, {where}"
    why = runs.seconds(share, load, "paceline", "fair")
    yield _not_above(claim, runs.lower(share, load, "paceline", "fair"), why)
    claim = f"paceline with the objective jct is below paceline in mean JCT, {where}"
    why = runs.seconds(share, load, "paceline", "paceline:jct")
    yield order(claim, "ours", "below", runs.lower(share, load, "paceline:jct", "paceline"), why)


def _not_above(claim: str, gains: Sequence[float], why: str) -> Claim:
    """`gains`: by how many percent each is below fair."""
    mean = fmean(gains)
    return Claim(claim, "ours", "%", "not above", mean, (min(gains), max(gains)), mean >= -MOST_ABOVE_FAIR, why)


def _readings(runs: Runs, share: str, load: str) -> Iterator[Claim]:
    """The paper's own scheduler. Whoever planned a slot first has it, which first come first served shows alone; what
    is left of a link is borrowed as fair sharing would have it."""
    where = f"PS share {share}, {'few jobs' if load == FEW else f'load {load}'}"
    first_come = -fmean(runs.lower(share, load, "fifo", "fair"))
    for reading in READINGS:
        why = (
            f"{runs.seconds(share, load, reading, 'mcs', 'ccml', 'fair', 'fifo')}; first come first served alone, with"
            f" neither slots nor messages, is {first_come:.1f} % above fair, and {reading}"
            f" {_beside(runs.lower(share, load, reading, 'fifo'))} first come first served and"
            f" {_beside(runs.lower(share, load, reading, 'fair'))} fair"
        )
        for than, paper in BASELINES:
            claim = f"{reading} is below {than.upper()} in mean JCT, {where}"
            yield figure(claim, "VII-A, Fig. 15", paper, runs.lower(share, load, reading, than), why)
        claim = f"{reading} is below fair sharing in mean JCT, {where}"
        yield order(claim, "VI-C", "below", runs.lower(share, load, reading, "fair"), why)


def _beside(gains: list[float]) -> str:
    mean = fmean(gains)
    return f"{abs(mean):.1f} % {'below' if mean > 0.0 else 'above'}"


def _points(runs: Runs) -> Iterator[Claim]:
    """What each point at which the paper can be read otherwise does for the strictest reading."""
    for point, what in OPTIONS.items():
        gain = runs.lower("0.5", FEW, f"mlcc:{point}", "mlcc")
        seconds = [runs.results.mean(f"0.5/{FEW}/{policy}", JCT) for policy in ("mlcc", f"mlcc:{point}")]
        why = "mean JCT s: {:.1f} without and {:.1f} with".format(*seconds)
        yield order(f"mlcc gains by {point}: {what}; few jobs", "IV-C", "below", gain, why)


def _every_trace(runs: Runs, policy: str) -> Claim:
    gains = [g for share in runs.shares for load in runs.loads for g in runs.lower(share, load, policy, "fair")]
    claim = f"{policy} is at most {MOST_ABOVE_FAIR:.0f} % above fair sharing on every single trace: the worst one"
    return _worst(claim, gains, "traces are")


def _worst(claim: str, gains: Sequence[float], what: str, more: str = "") -> Claim:
    above = sum(gain < -MOST_ABOVE_FAIR for gain in gains)
    why = f"{above} of {len(gains)} {what} more than that above{more}; all together {fmean(gains):.1f} % below fair"
    return Claim(claim, "ours", "%", "not above", min(gains), (min(gains), max(gains)), not above, why)


def lucky_claims(runs: Runs) -> Iterator[Claim]:
    """What of a trace above fair is the policy, and what is where its jobs came to be."""
    moves, draws = len(runs.again("~")), len(runs.again("@"))
    of_moves: list[tuple[float, float]] = []
    of_draws: list[float] = []
    single = []
    for share, load in ((share, load) for share in runs.shares for load in runs.loads):
        once = runs.lower(share, load, "paceline", "fair")
        again = zip(once, runs.by_seed(share, load, "~"), runs.by_seed(share, load, "@"), strict=True)
        for seed, (first, moved, same) in enumerate(again):
            of_moves.append(interval(moved))
            of_draws += same
            if min(first, fmean(moved)) < -MOST_ABOVE_FAIR:
                trace = f"PS share {share}, load {load}, seed {seed + 1}, {-first:+.1f} % as it is"
                why = (
                    f"95 % interval ± {interval(moved)[1]:.1f}; {_swing(runs, share, load, seed)}. With the same GPUs"
                    f" for each job under both it is {fmean(same):.1f} % below ({min(same):.1f} … {max(same):.1f})"
                )
                claim = f"… {trace}: the mean of {moves} moves"
                single.append(_not_above(claim, moved, why))
    surely = sum(mean + reach < -MOST_ABOVE_FAIR for mean, reach in of_moves)
    claim = f"… with arrivals moved by milliseconds, {moves} times: the worst mean of a trace"
    yield _worst(claim, [mean for mean, _ in of_moves], "means are", f" ({surely} with all of their 95 % interval)")
    claim = f"… with the same GPUs for each job under both policies, {draws} draws of every trace: the worst run"
    yield _worst(claim, of_draws, "runs are")
    yield from single


def _swing(runs: Runs, share: str, load: str, seed: int) -> str:
    """How far the moves alone carry each policy from its own mean."""
    found = []
    for policy in ("fair", "paceline"):
        jcts_s = [runs.results.rows[f"{share}/{load}{move}/{policy}"][seed][JCT] for move in runs.again("~")]
        mean_s = fmean(jcts_s)
        least, most = (100.0 * (end / mean_s - 1.0) for end in (min(jcts_s), max(jcts_s)))
        found.append(f"{policy} by {least:+.1f} … {most:+.1f} %")
    return f"the moves alone change {' and '.join(found)}"
