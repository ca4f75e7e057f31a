"""Titan's greedy placement of one job (§IV, Algorithms 1 to 3).

H(Φ) is how many machines are saved by merging workers into the sets of Φ. A set of m workers on one machine saves
m - 1, so the largest gain is the machine that can hold most of the workers left: machines are taken by their room,
largest first. Idle machines are taken only as far as fragments have no room: first the fewest idle machines (O1), then
the fewest of all (O2). The largest machines also leave the most freedom for what Algorithm 1 asks of the sets: that
phases stay below P_{s,s'}.

Deviations. Workers are divided over the chosen machines by their traffic (partition.py) instead of at random: the
paper's own example needs it. If a division exceeds the bandwidth it is repaired, else up to MOST_MORE more machines are
tried. Each set finally goes to the tightest machine that holds it: the same traffic and machines, fewer fragments.
"""

from paceline.cluster.collectives import totals
from paceline.cluster.titan.nimp import Assignment, Problem, cost, excess_bytes
from paceline.cluster.titan.partition import partition, repaired

MOST_MORE = 4  # machines beyond the least number, of either kind


def solve(problem: Problem) -> Assignment | None:
    """The machine of each worker; None if there are too few GPUs or no division respects the bandwidth."""
    by_room = sorted((machine for machine in problem.free if problem.free[machine]), key=lambda m: -problem.free[m])
    fragments = [machine for machine in by_room if not problem.idle(machine)]
    idle = [machine for machine in by_room if problem.idle(machine)]
    lacking = problem.workers - sum(problem.free[machine] for machine in fragments)
    fewest_idle = max(0, -(-lacking // problem.gpus_per_server))
    for opened in range(fewest_idle, min(len(idle), fewest_idle + MOST_MORE) + 1):
        fewest = _fewest(problem, idle[:opened], fragments)
        for count in range(fewest, min(len(fragments), fewest + MOST_MORE) + 1):
            assignment = _divided(problem, [*idle[:opened], *fragments[:count]])
            if assignment is not None:
                return _tightest(problem, assignment)
    return None


def _fewest(problem: Problem, opened: list[str], fragments: list[str]) -> int:
    """How many fragments, largest first, hold what the opened idle machines do not."""
    left = problem.workers - len(opened) * problem.gpus_per_server
    count = 0
    while left > 0 and count < len(fragments):
        left -= problem.free[fragments[count]]
        count += 1
    return count


def _divided(problem: Problem, machines: list[str]) -> Assignment | None:
    room = [problem.free[machine] for machine in machines]
    if not machines or sum(room) < problem.workers:
        return None
    machine_of = partition(problem.workers, room, totals(problem.phases))

    def named(places: list[int]) -> Assignment:
        return tuple(machines[place] for place in places)

    machine_of = repaired(machine_of, room, lambda places: excess_bytes(problem, named(places)))
    assignment = named(machine_of)
    return None if excess_bytes(problem, assignment) > 0.0 else assignment


def _tightest(problem: Problem, assignment: Assignment) -> Assignment:
    """Each set on the machine of its kind with the least room that holds it, unless that costs or exceeds anything."""
    now = cost(problem, assignment)
    for machine in sorted(set(assignment), key=assignment.index):
        size = assignment.count(machine)
        tighter = [
            other
            for other, free in problem.free.items()
            if size <= free < problem.free[machine] and other not in assignment and not problem.idle(other)
        ]
        if tighter:
            target = min(tighter, key=problem.free.__getitem__)
            moved = tuple(target if place == machine else place for place in assignment)
            if cost(problem, moved) <= now and excess_bytes(problem, moved) <= 0.0:
                assignment = moved
    return assignment
