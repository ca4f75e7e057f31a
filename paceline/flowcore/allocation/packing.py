"""Which jobs send now, when they cross several links: the max-weight packing of links.

Job j moves all its flows at one rate x_j (a ring or a PS round is as fast as its slowest flow), so with c_jl
flows on link l it uses c_jl·x_j of it. Measured against its own best, y_j = x_j / (what it reaches alone),

    maximise  Σ_j w_j·y_j      subject to   Σ_j A_lj·y_j ≤ 1  for every link l,     y_j ≥ 0

with A_lj = c_jl·x_j^alone/u_l, so that max_l A_lj = 1. The dual prices λ_l ≥ 0 of the links obey complementary
slackness, as the paper's do (§IV-B): a job sends only if its weight pays for its links, w_j ≥ Σ_l λ_l·A_lj.

On one link this is strict priority by weight. On several it is not, and that is the point: a job that holds two
links against one rival on each must be worth both rivals together, and three jobs that pairwise share a link get
half of it each, a total of 3/2, where any order of the three serves 1. Strict orders were measured and rejected:
see docs/design.md, "Why a packing".

The problems are small (the jobs that share links right now), so a dense simplex on Python lists is both exact
and faster than building arrays. Ties are broken by position, so the result depends on nothing but the input.
"""

from collections.abc import Sequence

_EPS = 1e-12


def max_weight(weights: Sequence[float], rows: Sequence[Sequence[float]]) -> list[float]:
    """Maximise weights·y under rows·y ≤ 1 and y ≥ 0. Weights are positive and every job has a coefficient."""
    return simplex(weights, undominated(rows))


def undominated(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Drop links that some other link makes redundant; the two directions of a ring are always such a pair."""
    distinct = list(dict.fromkeys(tuple(row) for row in rows))
    return [
        list(row)
        for row in distinct
        if not any(other is not row and all(a <= b for a, b in zip(row, other, strict=True)) for other in distinct)
    ]


def simplex(weights: Sequence[float], rows: list[list[float]]) -> list[float]:
    """Primal simplex from the origin, which is feasible."""
    jobs, links = len(weights), len(rows)
    tableau = [
        row + [1.0 if slack == index else 0.0 for slack in range(links)] + [1.0] for index, row in enumerate(rows)
    ]
    reduced = [-weight for weight in weights] + [0.0] * (links + 1)
    basis = list(range(jobs, jobs + links))
    # Dantzig's rule needs about as many pivots as there are links; Bland's, which cannot cycle, takes over if
    # degenerate pivots should ever make it turn in circles.
    patience = 4 * (jobs + links)
    for pivots in range(8 * patience):
        candidates = reduced[:-1]
        if pivots < patience:
            least = min(candidates)
            if least >= -_EPS:
                break
            entering = candidates.index(least)
        else:
            entering = next((index for index, cost in enumerate(candidates) if cost < -_EPS), -1)
            if entering < 0:
                break
        leaving, best_ratio = -1, float("inf")
        for index, row in enumerate(tableau):
            if row[entering] > _EPS:
                ratio = row[-1] / row[entering]
                if ratio < best_ratio - _EPS or (
                    ratio <= best_ratio + _EPS and leaving >= 0 and basis[index] < basis[leaving]
                ):
                    leaving, best_ratio = index, ratio
        if leaving < 0:
            raise ArithmeticError("unbounded: a job with weight crosses no link")
        pivot = tableau[leaving]
        scale = 1.0 / pivot[entering]
        tableau[leaving] = pivot = [value * scale for value in pivot]
        for index, row in enumerate(tableau):
            if index != leaving and (factor := row[entering]) != 0.0:
                tableau[index] = [value - factor * base for value, base in zip(row, pivot, strict=True)]
        factor = reduced[entering]
        reduced = [value - factor * base for value, base in zip(reduced, pivot, strict=True)]
        basis[leaving] = entering
    solution = [0.0] * jobs
    for row, variable in zip(tableau, basis, strict=True):
        if variable < jobs:
            solution[variable] = max(0.0, row[-1])
    return solution
