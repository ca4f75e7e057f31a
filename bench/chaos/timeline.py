"""What was seen during a run, in seconds from its beginning: the judge knows nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.chaos.plan import Fault


class Iteration(NamedTuple):
    begin_s: float
    end_s: float

    @property
    def took_s(self) -> float:
        return self.end_s - self.begin_s


class KernelLook(NamedTuple):
    """At the root qdisc of a host."""

    at_s: float
    paced: bool  # it is hostd's


class StatusLook(NamedTuple):
    """At a hostd's status; one that did not answer is not in the list."""

    at_s: float
    enforces: bool  # has a lease and a backend that limits
    with_switch: bool  # and decides together with its switch
    controlled: frozenset[str]  # jobs
    left_to_tcp: frozenset[str]


@dataclass
class JobTimeline:
    hosts: tuple[str, ...]
    tcp_iteration_s: float = 0.0  # median without daemons, beside the same jobs
    paced_iteration_s: float = 0.0  # median with daemons, before the first fault
    iterations: list[Iteration] = field(default_factory=list)  # an unfinished one at the end is among them
    running: list[tuple[float, float]] = field(default_factory=list)  # from, to
    errors: list[tuple[float, str]] = field(default_factory=list)
    starts: int = 0


@dataclass
class HostTimeline:
    kernel: list[KernelLook] = field(default_factory=list)
    status: list[StatusLook] = field(default_factory=list)


@dataclass
class Performed:
    """A fault as it happened."""

    fault: Fault
    begin_s: float
    end_s: float
    note: str = ""  # what it came to, or why it could not be


@dataclass
class Timeline:
    slot_s: float
    begin_s: float  # of the faults
    end_s: float  # of the observation; the daemons are stopped then
    jobs: Mapping[str, JobTimeline]
    hosts: Mapping[str, HostTimeline]
    faults: list[Performed] = field(default_factory=list)
    stalls_s: list[tuple[float, float]] = field(default_factory=list)  # of the machine
    ended: list[tuple[float, str]] = field(default_factory=list)  # daemons that ended without being told to
    raised: list[str] = field(default_factory=list)  # lines of logs with an exception
    differences: list[str] = field(default_factory=list)  # between the state before and after
    leaks: list[str] = field(default_factory=list)

    def stalled_s(self, begin_s: float, end_s: float) -> float:
        """How long the machine stood still in between."""
        return sum(max(0.0, min(end_s, to_s) - max(begin_s, from_s)) for from_s, to_s in self.stalls_s)
