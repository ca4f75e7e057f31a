"""What an experiment is: a name, the paper's figure, what it shows, how to run it, and how its result is shown.

Running and showing are apart: `run` returns plain data that is stored as JSON; `present` makes tables and figures of
that, also of a file that is years old. A check is a claim with a threshold, decided by `run`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bench.jobs.cases import Case, CaseRuns, Progress, Share, make_runs, make_share
from bench.jobs.run_store import RunStore
from bench.report.parts import Part

Result = dict[str, Any]  # JSON

CONTROLS = ("reno", "cubic", "bbr", "mlcc", "paceline")  # unless told otherwise
COMPARED = ("reno", "cubic", "bbr", "paceline")  # in every experiment that compares controls


@dataclass(frozen=True, slots=True)
class Options:
    quick: bool = False  # seconds instead of minutes, without torch: shows that it works, and nothing else
    repeats: int = 1
    seed: int = 1
    controls: tuple[str, ...] = CONTROLS  # those COMPARED among them
    cases: tuple[str, ...] = ()  # of an experiment whose cases have names; empty: all
    duration_s: float | None = None  # of a run, where the experiment leaves it open; None: its own
    store: RunStore = field(default_factory=RunStore)
    progress: Progress = lambda doing, part: None
    share: Share | None = None  # of the runs, where several processes make them; None: all

    def make(self, cases: Sequence[Case]) -> dict[str, CaseRuns]:
        """The runs, by the case's name."""
        if self.share is not None:
            make_share(cases, self.repeats, self.store, self.progress, self.share)
        return make_runs(cases, self.repeats, self.store, self.progress)


@dataclass(frozen=True, slots=True)
class Check:
    """A claim and what was found; `passed` is None where the data do not suffice."""

    claim: str
    found: str
    passed: bool | None

    @classmethod
    def at_most(cls, claim: str, value: float, limit: float, text: str = "{:.3f}") -> "Check":
        return cls(claim, text.format(value), value <= limit)


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    figure: str  # of the paper; "" for an experiment of our own
    shows: str  # "whether …"
    run: Callable[[Options], Result]
    present: Callable[[Result], Sequence[Part]]
    paper: Mapping[str, str] = field(default_factory=dict)  # what the paper says, in its words and numbers
    here: Callable[[Result], Mapping[str, str]] = lambda result: {}  # by the same keys, what was found here
    differs: str = ""  # from the paper, and why
    repeats: int | None = 3  # unless told otherwise; None: always made once
    controls: tuple[str, ...] | None = None  # None: those asked for
    more_controls: tuple[str, ...] = ()  # beside those
    cases: tuple[str, ...] = ()  # names, where some of them can be chosen

    def effective_options(self, options: Options) -> Options:
        """The options without those that do not apply to this experiment."""
        controls = options.controls if self.controls is None else self.controls
        return replace(
            options,
            repeats=1 if self.repeats is None else options.repeats,
            controls=tuple(dict.fromkeys((*controls, *self.more_controls))),
            cases=tuple(one for one in options.cases if one in self.cases),
        )


def percent(part: float, digits: int = 1) -> str:
    return f"{100 * part:.{digits}f} %"


def change(ratio: float, digits: int = 1) -> str:
    """How much more or less than 1, signed."""
    return f"{100 * (ratio - 1):+.{digits}f} %"


def spread(mean: float, half_width: float | None, digits: int = 3) -> str:
    """With its 95 % interval, where there is one."""
    return f"{mean:.{digits}f}" if half_width is None else f"{mean:.{digits}f} ± {half_width:.{digits}f}"


def as_json(checks: Sequence[Check]) -> list[Result]:
    return [asdict(check) for check in checks]
