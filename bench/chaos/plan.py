"""Which faults happen, when and to what: a function of the seed.

fault     begins at `at_s`, is taken back after `lasts_s`; the next one begins a pause later
pause     mostly long enough to recover from the fault, sometimes next to nothing: then two faults meet
kinds     each comes once before any comes again, so that a short run has many of them
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from random import Random

from paceline.failure import Failure

FIRST_S = 0.5
PAUSE_S, SHORT_PAUSE_S = (4.0, 9.0), (0.0, 0.5)
SHORT_PAUSES = 0.2  # the part of them


class Target(StrEnum):
    HOST = "host"
    SWITCH = "switch"
    JOB = "job"


class KindError(Failure):
    """No such kind of fault; str() says which there are."""


@dataclass(frozen=True, slots=True)
class Kind:
    target: Target
    what: str
    lasts_s: tuple[float, float] = (0.0, 0.0)


_HOST, _SWITCH, _JOB = Target.HOST, Target.SWITCH, Target.JOB
KINDS: Mapping[str, Kind] = {
    "kill-hostd": Kind(_HOST, "hostd is killed"),
    "stop-hostd": Kind(_HOST, "hostd stands still", (0.1, 4.0)),
    "kill-guardian": Kind(_HOST, "the guardian is killed"),
    "stop-guardian": Kind(_HOST, "the guardian stands still", (0.1, 4.0)),
    "kill-both": Kind(_HOST, "hostd and its guardian are killed"),
    "kill-worker": Kind(_HOST, "hostd's workers are killed"),
    "stop-worker": Kind(_HOST, "hostd's workers stand still", (0.1, 3.0)),
    "kill-switchd": Kind(_SWITCH, "switchd is killed"),
    "stop-switchd": Kind(_SWITCH, "switchd stands still", (0.1, 4.0)),
    "step-clock": Kind(_SWITCH, "switchd starts again with another wall clock"),
    "kill-job": Kind(_JOB, "a job is killed, and started again later", (0.2, 3.0)),
    "restart-job": Kind(_JOB, "a job is killed, and started again at once"),
    "stop-job": Kind(_JOB, "one worker of a job stands still", (0.3, 4.0)),
    "delete-qdisc": Kind(_HOST, "an operator deletes the root qdisc"),
    "replace-qdisc": Kind(_HOST, "an operator replaces the root qdisc", (0.5, 4.0)),
    "delete-class": Kind(_HOST, "an operator deletes a class"),
    "address": Kind(_HOST, "the host's address is removed, and added again", (0.05, 0.6)),
    "link": Kind(_HOST, "the link is down", (0.05, 0.6)),
    "mtu": Kind(_HOST, "the link's MTU is 1200", (0.5, 4.0)),
    "full-disk": Kind(_HOST, "the runtime directory is full", (1.0, 6.0)),
    "delete-undo-log": Kind(_HOST, "the undo log is deleted"),
    "truncate-undo-log": Kind(_HOST, "the undo log is cut short"),
    "release": Kind(_HOST, "paceline release --all, later a reload", (0.5, 4.0)),
    "reload": Kind(_HOST, "the mode is advise, by a reload", (0.5, 4.0)),
    "bad-reload": Kind(_HOST, "a reload with a bad file", (0.5, 0.5)),
}


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    at_s: float
    kind: str
    target: str  # a host, switch or job
    lasts_s: float
    chance: float  # in [0, 1), for what a fault has to choose itself

    @property
    def end_s(self) -> float:
        return self.at_s + self.lasts_s


def draw(
    seed: int, duration_s: float, kinds: Sequence[str], hosts: Sequence[str], switches: Sequence[str],
    jobs: Sequence[str],
) -> tuple[Fault, ...]:  # fmt: skip
    """All faults have ended by then."""
    random = Random(seed)
    targets = {Target.HOST: list(hosts), Target.SWITCH: list(switches), Target.JOB: list(jobs)}
    faults: list[Fault] = []
    at_s = FIRST_S
    for name in _bags(random, kinds):
        kind = KINDS[name]
        lasts_s = random.uniform(*kind.lasts_s)
        if at_s + lasts_s > duration_s:
            break
        target = random.choice(targets[kind.target])
        faults.append(Fault(len(faults), round(at_s, 3), name, target, round(lasts_s, 3), random.random()))
        short = random.random() < SHORT_PAUSES
        at_s += lasts_s + random.uniform(*(SHORT_PAUSE_S if short else PAUSE_S))
    return tuple(faults)


def _bags(random: Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        bag = list(kinds)
        random.shuffle(bag)
        yield from bag


def kinds_named(text: str | None) -> tuple[str, ...]:
    """From a list with commas; all where there is none. Raises KindError."""
    if text is None:
        return tuple(KINDS)
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in KINDS:
            close = get_close_matches(name, KINDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected some of {', '.join(KINDS)}"
            raise KindError(f"no kind of fault {name!r}; {hint}")
    return names
