"""A fault history as data: a topology, jobs, and faults with the slot in which each begins and how long it lasts.

Law: a history says all that a run depends on. The same history gives the same run, in every process; what a failing
one shrinks to is a history again, and the file of those that once failed holds them.
"""

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from paceline.flowcore.model.topology import Topology, clos, star, tree

MB_PER_SLOT = 7.5  # of 60 ms, at 1 Gbit/s


class Kind(StrEnum):
    CUT = "cut"  # the stream from `node` to `peer` breaks: what is under way is lost
    LATE = "late"  # every message of that stream takes `amount` slots longer
    DOUBLED = "doubled"  # every report of the host `node` arrives twice, as when a call is made again
    STALL = "stall"  # the host or switch `node` does nothing; what comes meanwhile waits
    SUSPEND = "suspend"  # a stall of a host whose clock stands still, too
    CRASH = "crash"  # of the host's or switch's daemon; it comes back with nothing
    CLOCK = "clock"  # the clock of the switch `node` is off by `amount` slots until it follows its parent again
    HANG = "hang"  # the job `node` announces bytes and sends none
    KILL = "kill"  # the job `node` ends, and starts again from its first iteration
    LIE = "lie"  # the host `node` tells its switch what is not so: `peer` says which lie


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    node: str
    at_slot: float
    for_slots: float
    peer: str = ""
    amount: float = 0.0
    notice_slots: float = 0.0  # how late the other end of a broken stream notices

    def __str__(self) -> str:
        where = f"{self.node} {self.peer}".strip()
        more = f" by {self.amount:g} slots" if self.amount else ""
        more += f", noticed {self.notice_slots:g} slots later" if self.notice_slots else ""
        return f"{self.kind} {where} at slot {self.at_slot:g} for {self.for_slots:g}{more}"


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    workers: tuple[str, ...]
    servers: tuple[str, ...]  # empty: a ring
    model_mb: float
    compute_slots: float
    start_slot: float

    @property
    def burst_slots(self) -> float:
        """How long its exchange takes alone, on links of 1 Gbit/s."""
        members = len(self.workers)
        times = members if self.servers else 2 * (members - 1) / members
        return times * self.model_mb / MB_PER_SLOT

    def __str__(self) -> str:
        hosts = f"{','.join(self.workers)} with {','.join(self.servers)}" if self.servers else ">".join(self.workers)
        computes = f"computes {self.compute_slots:g} slots"
        return f"{self.name} {hosts}, {self.model_mb:g} MB, {computes}, from slot {self.start_slot:g}"


@dataclass(frozen=True, slots=True)
class History:
    seed: int
    topology: str  # star, tree or clos
    shape: tuple[int, ...]  # what its builder takes (paceline/flowcore/model/topology.py)
    slots: int  # faults begin in the first half
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...]

    @property
    def calm_slot(self) -> float:
        """From here on nothing is out of order."""
        # Of a stream that was late the last message is still under way, and all that follow wait behind it.
        ends = [fault.at_slot + max(fault.for_slots, fault.notice_slots) for fault in self.faults]
        ends += [fault.at_slot + fault.for_slots + fault.amount for fault in self.faults if fault.kind is Kind.LATE]
        return max([*ends, *(job.start_slot for job in self.jobs), 0.0])

    def build(self) -> Topology:
        if self.topology == "star":
            return star(self.shape[0], 1.0)
        under_each, groups, above = self.shape
        if self.topology == "tree":
            return tree(under_each, groups, above, (1.0, 1.0, 1.5))
        return clos(under_each, groups, above, (1.0, 1.0))

    def without(self, *, fault: Fault | None = None, job: Job | None = None) -> "History":
        faults = tuple(one for one in self.faults if one is not fault and (job is None or one.node != job.name))
        return replace(self, faults=faults, jobs=tuple(one for one in self.jobs if one is not job))

    def lines(self) -> list[str]:
        """For people."""
        shape = "x".join(map(str, self.shape))
        return [f"{self.topology} {shape}, {self.slots} slots", *map(str, self.jobs), *map(str, self.faults)]


def encode(history: History) -> str:
    return json.dumps(asdict(history))


def decode(text: str) -> History:
    plain: dict[str, Any] = json.loads(text)
    jobs = (job | {"workers": tuple(job["workers"]), "servers": tuple(job["servers"])} for job in plain["jobs"])
    faults = (fault | {"kind": Kind(fault["kind"])} for fault in plain["faults"])
    plain["jobs"] = tuple(Job(**job) for job in jobs)
    plain["faults"] = tuple(Fault(**fault) for fault in faults)
    return History(**plain | {"shape": tuple(plain["shape"])})
