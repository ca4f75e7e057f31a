"""The capacity bound: no policy, however clever, has a smaller mean slowdown.

Job i needs the share a_il of link l at full speed (its bytes ÷ link rate ÷ iteration time alone), so a_il/s_i
when its iterations take s_i times as long. No link carries more than it can, no job beats running alone:

    minimise Σ_i s_i      subject to   Σ_i a_il/s_i ≤ 1  for every link l,      s_i ≥ 1.

In the speeds x_i = 1/s_i this is convex: minimise Σ 1/x_i under A x ≤ 1, x ≤ 1. With a price λ_l ≥ 0 per link
and c_i = Σ_l λ_l a_il, the price of job i's full speed, Lagrange's conditions are

    s_i = max(1, √c_i),      λ_l > 0 only where link l is full,

and any prices at all give a lower bound on Σ s_i, the dual value

    D(λ) = Σ_i φ(c_i) − Σ_l λ_l,      φ(c) = min_{0<x≤1} 1/x + c·x = 2√c if c ≥ 1, else 1 + c.

The solution is found by a primal-dual interior-point method: Newton's method on the conditions with both
complementarity products held at τ > 0, while τ falls to zero (the central path):

    −1/x_i² + c_i + μ_i = 0,      λ_l (1 − (A x)_l) = τ,      μ_i (1 − x_i) = τ.

Eliminating dλ and dμ leaves one positive definite system with a row per job. The start is on the path: for
large τ the slacks are nearly 1, so λ = μ = τ and x_i = 1/√(τ(1 + Σ_l a_il)) solve the first condition exactly
and the others nearly. (Starting at a feasible point off the path took up to three times the steps.)

As τ → 0 that system loses its digits. So as soon as the path shows which links are full, their prices are
solved for directly, by Newton's method on Σ_i a_il/s_i(λ) = 1, which is well conditioned just there. Nothing
is taken on trust: a residual made of primal feasibility and duality gap decides which prices are returned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BINDING_LOAD = 1.0 + 1e-9  # a link needed by no more than this is not worth a price
AIM_RESIDUAL = 1e-13  # sought, and found unless a link is overloaded by less than a millionth
MAX_RESIDUAL = 1e-8  # promised
BOUNDARY = 0.99  # share of the way to the nearest constraint that one step may go
MAX_STEPS = 100  # 8 for a few jobs, 25 for a thousand or for shares from 1e-9 to 50
POLISH_BELOW = 1e-3  # residual at which the full links are told from the others well enough to try
POLISH_STEPS = 5  # quadratic from 1e-3
NEARLY_SLOWED = 0.999  # c of a job that may turn out to be slowed, on a link that is hardly overloaded
LEAST_PRODUCT = 1e-16  # mean product at which the path has no more digits to give


@dataclass(frozen=True, slots=True)
class CapacityBound:
    """The least mean slowdown, the slowdowns that attain it, and the links' prices with respect to Σ s_i."""

    slowdowns: tuple[float, ...]  # s_i = max(1, √(Σ_l prices[l] · a_il)), in the order of the jobs
    mean: float
    prices: dict[str, float]  # λ_l for every link named; 0 where the link cannot bind


def capacity_bound(shares: Sequence[Mapping[str, float]]) -> CapacityBound:
    """The bound for jobs whose job i needs `shares[i][link]` of each link at full speed."""
    load: dict[str, float] = {}
    for share in shares:
        for link, a in share.items():
            if not 0.0 <= a < np.inf:
                raise ValueError(f"share of link {link!r} is {a}, expected a finite number ≥ 0")
            load[link] = load.get(link, 0.0) + a

    # Only an overloaded link can bind, and only jobs on such a link can be slowed.
    row_of = {link: row for row, link in enumerate(name for name in load if load[name] > BINDING_LOAD)}
    slowed = [i for i, share in enumerate(shares) if any(a and link in row_of for link, a in share.items())]
    slowdowns = [1.0] * len(shares)
    prices = dict.fromkeys(load, 0.0)
    if slowed:
        need = np.zeros((len(row_of), len(slowed)))
        for column, i in enumerate(slowed):
            for link, a in shares[i].items():
                if link in row_of:
                    need[row_of[link], column] = a
        price = _optimal_prices(need)
        for i, s in zip(slowed, _slowdowns(need, price).tolist(), strict=True):
            slowdowns[i] = s
        prices.update(zip(row_of, price.tolist(), strict=True))
    return CapacityBound(tuple(slowdowns), sum(slowdowns) / len(shares) if shares else 1.0, prices)


def _slowdowns(need: Matrix, price: Vector) -> Vector:
    return np.sqrt(np.maximum(1.0, price @ need))


def _residual(need: Matrix, price: Vector) -> float:
    """How far `price` is from optimal: the larger of the relative overload of a link at its slowdowns, and of
    the relative distance of their sum, once scaled up to be feasible, from the lower bound D(λ)."""
    c = price @ need
    s = np.sqrt(np.maximum(1.0, c))
    overload = max(1.0, float((need @ (1.0 / s)).max()))
    feasible = overload * float(s.sum())
    dual = float(np.where(c >= 1.0, 2.0 * s, 1.0 + c).sum() - price.sum())
    return max(overload - 1.0, 1.0 - dual / feasible)


def _optimal_prices(need: Matrix) -> Vector:
    """λ for the matrix A = `need` (links × jobs), in which every row sums to more than 1."""
    links, jobs = need.shape
    weighted_gram = _weighted_gram(need)
    x = 1.0 / np.sqrt(1.0 + need.sum(axis=0))
    scale = 0.5 / max((need @ x).max(), x.max())  # so large a start that the fullest constraint has slack ½
    x *= scale
    price, mu = np.full(links, scale**-2), np.full(jobs, scale**-2)
    spare, above = 1.0 - need @ x, 1.0 - x  # the constraints' slacks

    best, best_price, centering = np.inf, price, 0.1
    for _ in range(MAX_STEPS):
        product = float(spare @ price + above @ mu)  # Σ of all complementarity products; → 0
        candidates = [price]
        if best < POLISH_BELOW:
            candidates += [_polished(need, price, price > spare, least_c) for least_c in (1.0, NEARLY_SLOWED)]
        for candidate in candidates:
            residual = _residual(need, candidate)
            if residual < best:
                best, best_price = residual, candidate
        if best < AIM_RESIDUAL or product < LEAST_PRODUCT * (links + jobs):
            break
        tau = centering * product / (links + jobs)
        slowdown = 1.0 / x
        hessian = weighted_gram(price / spare)
        hessian.flat[:: jobs + 1] += 2.0 * slowdown**3 + mu / above
        hessian.flat[:: jobs + 1] *= 1.0 + 1e-15  # regular even where rounding swallowed that diagonal
        dx = np.linalg.solve(hessian, slowdown**2 - (tau / spare) @ need - tau / above)
        dload = need @ dx
        dprice = (tau + price * dload) / spare - price
        dmu = (tau + mu * dx) / above - mu

        # Each quantity v > 0 with change d allows a step of at most −v/d: the largest −d/v decides.
        shrinking = (-dx * slowdown, dload / spare, dx / above, -dprice / price, -dmu / mu)
        step = min(1.0, BOUNDARY / max(BOUNDARY, *(float(rate.max()) for rate in shrinking)))
        x = x + step * dx
        spare, above = spare - step * dload, above - step * dx
        price, mu = price + step * dprice, mu + step * dmu
        # A full step says that the path is near: aim a hundred times lower. After a short one return to it.
        centering = min(0.9, max(0.01, 1.0 - step))
    if not best < MAX_RESIDUAL:
        raise ArithmeticError(f"capacity bound: residual {best:.1e} after at most {MAX_STEPS} steps")
    return best_price


def _polished(need: Matrix, price: Vector, full: NDArray[np.bool_], least_c: float) -> Vector:
    """Prices that make the `full` links exactly full and the others free, if jobs with c > `least_c` are the
    slowed ones; no use if either guess is wrong."""
    rows, exact = need[full], price[full]
    for _ in range(POLISH_STEPS):
        c = exact @ rows
        x = 1.0 / np.sqrt(np.where(c > least_c, c, 1.0))
        excess = rows @ x - 1.0
        if np.abs(excess).max(initial=0.0) < 1e-15:
            break
        jacobian = (rows * np.where(c > least_c, 0.5 * x**3, 0.0)) @ rows.T
        # Links with the same jobs make it singular; any split of their price will do, so a hair picks one.
        jacobian.flat[:: len(exact) + 1] += 1e-12 * (jacobian.diagonal() + 1e-12)
        exact = np.maximum(0.0, exact + np.linalg.solve(jacobian, excess))
    polished = np.zeros_like(price)
    polished[full] = exact
    return polished


def _weighted_gram(need: Matrix) -> Callable[[Vector], Matrix]:
    """d ↦ Aᵀ diag(d) A, the dearest part of a step on a large cluster, where most links have few jobs."""
    links, jobs = need.shape
    members = [np.flatnonzero(row) for row in need]
    pairs = sum(m.size**2 for m in members)
    if 20 * pairs > links * jobs**2:  # an indexed addition costs as much as some 20 steps of a matrix product
        return lambda d: (need.T * d) @ need
    cell = np.concatenate([np.add.outer(m * jobs, m).ravel() for m in members])
    value = np.concatenate([np.outer(need[row, m], need[row, m]).ravel() for row, m in enumerate(members)])
    link = np.repeat(np.arange(links), [m.size**2 for m in members])

    def gram(d: Vector) -> Matrix:
        sums: Vector = np.bincount(cell, value * d[link], jobs * jobs).astype(np.float64, copy=False)
        return sums.reshape(jobs, jobs)

    return gram
