"""NIMP, non-idle machine-aware worker placement: the paper's name for the problem that Titan solves (§III-B).

    minimise  O1 = idle machines opened, then O2 = machines used
    with      every worker on one machine, at most R_s on machine s, and in every phase t and between any two machines
              Σ x_n^s · x_n'^s' · C^t_{n,n'} ≤ P_{s,s'}

Among equals the least traffic between machines is best; the paper says so only by its example, which O1, O2 and P alone
cannot tell from HiveD's placement (both use two machines and at most K/2 in a phase).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from paceline.cluster.collectives import Phase

Assignment = tuple[str, ...]  # the machine of each worker


def unlimited(one: str, other: str) -> float:
    return inf


@dataclass(frozen=True, slots=True)
class Problem:
    free: Mapping[str, int]  # R_s
    gpus_per_server: int  # a machine with as many free is idle
    workers: int
    phases: Sequence[Phase]
    limit_bytes: Callable[[str, str], float] = unlimited  # P_{s,s'}, per phase

    def idle(self, machine: str) -> bool:
        return self.free[machine] == self.gpus_per_server


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """In the order of importance."""

    idle_opened: int  # O1
    machines: int  # O2
    cross_bytes: float


def cost(problem: Problem, assignment: Assignment) -> Cost:
    used = set(assignment)
    return Cost(sum(map(problem.idle, used)), len(used), cross_bytes(problem.phases, assignment))


def cross_bytes(phases: Sequence[Phase], assignment: Assignment) -> float:
    """What crosses between machines in one all-reduce."""
    return sum(
        phase.times * size_bytes
        for phase in phases
        for (one, other), size_bytes in phase.bytes_of.items()
        if assignment[one] != assignment[other]
    )


def excess_bytes(problem: Problem, assignment: Assignment) -> float:
    """By how much phases exceed the bandwidth between machines; 0: the third constraint holds."""
    if problem.limit_bytes is unlimited:
        return 0.0
    excess = 0.0
    for phase in problem.phases:
        between: dict[tuple[str, str], float] = {}
        for (one, other), size_bytes in phase.bytes_of.items():
            first, second = sorted((assignment[one], assignment[other]))
            if first != second:
                between[first, second] = between.get((first, second), 0.0) + size_bytes
        excess += sum(max(0.0, found - problem.limit_bytes(*machines)) for machines, found in between.items())
    return excess
