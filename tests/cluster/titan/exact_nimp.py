"""NIMP solved exactly with HiGHS, and how far Titan's greedy is from it on random small clusters.

    python tests/cluster/titan/exact_nimp.py --cases 60          a table
    python tests/cluster/titan/exact_nimp.py --cases 60 --json   one JSON object with provenance

The products x_n^s · x_n'^s' become variables, as usual: z ≥ x + x' - 1. The three objectives are one sum with weights
so far apart that an earlier one always wins.
"""

import argparse
import json
from itertools import permutations
from random import Random

import highspy

from paceline.cluster.collectives import COLLECTIVES
from paceline.cluster.titan.greedy import solve
from paceline.cluster.titan.nimp import Assignment, Cost, Problem, cost, excess_bytes, unlimited
from paceline.commands.provenance import provenance

K_BYTES = 64.0  # the model's size in the paper's symbol; only ratios matter
GPUS = 4  # per machine


def optimum(problem: Problem) -> Assignment | None:
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    machines = [machine for machine, free in problem.free.items() if free]
    if not machines:
        return None
    workers = range(problem.workers)
    on = {(n, s): model.addBinary() for n in workers for s in machines}
    used = {s: model.addBinary() for s in machines}
    for n in workers:
        model.addConstr(sum(on[n, s] for s in machines) == 1)
    for s in machines:
        model.addConstr(sum(on[n, s] for n in workers) <= problem.free[s] * used[s])
    pairs = {pair for phase in problem.phases for pair in phase.bytes_of}
    apart = {
        (n, m, s, r): model.addVariable(lb=0.0) for n, m in pairs for s, r in permutations(machines, 2)
    }  # z: n is on s and m on r
    for (n, m, s, r), both in apart.items():
        model.addConstr(both >= on[n, s] + on[m, r] - 1)
    traffic = 0.0
    for phase in problem.phases:
        for s, r in permutations(machines, 2):
            between = sum(size * apart[n, m, s, r] for (n, m), size in phase.bytes_of.items())
            traffic = traffic + phase.times * between
            if s < r and problem.limit_bytes is not unlimited:
                back = sum(size * apart[n, m, r, s] for (n, m), size in phase.bytes_of.items())
                model.addConstr(between + back <= problem.limit_bytes(s, r))
    everything = sum(phase.times * sum(phase.bytes_of.values()) for phase in problem.phases) + 1.0
    opened = sum((used[s] for s in machines if problem.idle(s)), 0.0 * used[machines[0]])
    model.minimize(everything * (len(machines) + 1) * opened + everything * sum(used.values()) + traffic)
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return tuple(next(s for s in machines if model.val(on[n, s]) > 0.5) for n in workers)


def random_problem(number: int, limited: bool) -> Problem:
    draws = Random(f"nimp/{number}")
    free = {f"M{place}": draws.randint(0, GPUS) for place in range(draws.randint(3, 5))}
    workers = draws.randint(2, max(2, min(8, sum(free.values()))))
    phases = COLLECTIVES[draws.choice(sorted(COLLECTIVES))](workers, K_BYTES)
    share = draws.choice((0.2, 0.35, 0.5, 1.0))
    limit = (lambda one, other: share * K_BYTES) if limited else unlimited
    return Problem(free, GPUS, workers, phases, limit)


def compare(cases: int) -> dict[str, object]:
    """Over the cases that have a solution."""
    ours: list[Cost] = []
    best: list[Cost] = []
    unsolved = 0
    for number in range(cases):
        problem = random_problem(number, limited=number % 2 == 1)
        exact, found = optimum(problem), solve(problem)
        if exact is None:
            assert found is None
            continue
        if found is None:
            unsolved += 1
            continue
        assert excess_bytes(problem, found) == 0.0
        ours.append(cost(problem, found))
        best.append(cost(problem, exact))
    columns = ("idle_opened", "machines", "cross_bytes")
    totals = {name: [sum(getattr(each, name) for each in costs) for costs in (ours, best)] for name in columns}
    return {
        "cases": cases,
        "solved": len(ours),
        "solvable_but_not_solved": unsolved,
        "exactly_optimal": sum(_same(one, other) for one, other in zip(ours, best, strict=True)),
        "titan": {name: found for name, (found, _) in totals.items()},
        "optimum": {name: exact for name, (_, exact) in totals.items()},
        "ratio": {name: found / exact if exact else 1.0 for name, (found, exact) in totals.items()},
    }


def _same(one: Cost, other: Cost) -> bool:
    counts = (one.idle_opened, one.machines) == (other.idle_opened, other.machines)
    return counts and abs(one.cross_bytes - other.cross_bytes) < 1e-6


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = compare(arguments.cases)
    if arguments.json:
        print(json.dumps(result | provenance(), indent=1))
    else:
        for key, value in result.items():
            print(f"{key:26}{value}")
