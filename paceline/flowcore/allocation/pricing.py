"""The packing of packing.py for crowds: link prices first, then an order of jobs by what they pay.

At the optimum a job sends only if its weight pays for its links, w_j ≥ Σ_l λ_l·A_lj, and a link has a price only if
it is full. Prices rise where more is wanted than fits and fall where less is, in proportion:

    wanted_l = Σ_j A_lj over the jobs that would pay        λ_l ← λ_l · wanted_l^γ

from the price at which every link alone would be full. A few rounds bring them close; then jobs are served in the
order of w_j / Σ_l λ_l·A_lj, each taking what those before it left. So no link gets more than its capacity and a job
is held back only by a full link, whatever the prices. On random crowds this reaches 97 % of the optimum
(tests/flowcore/allocation/test_pricing.py); the exact simplex takes seconds for a few hundred jobs.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints

ROUNDS = 12
GAIN = 0.5  # γ: at 1 prices swing, below 0.3 they are slow


def price_order(weight: Floats, job: Ints, link: Ints, use: Floats) -> Ints:
    """The jobs, best payer first; entry i says that `job[i]` needs the part `use[i]` of `link[i]` at full rate."""
    jobs, links = len(weight), int(link.max()) + 1
    wanted = np.bincount(link, use, links)
    # A job's weight, spread over its links by how wanted they are.
    spread = np.bincount(job, use * wanted[link], jobs)
    price = np.bincount(link, (weight / spread)[job] * use * wanted[link], links) / np.maximum(wanted, 1e-12)
    price[wanted <= 1.0] = 0.0  # all jobs that want it fit
    for _ in range(ROUNDS):
        pays = weight >= np.bincount(job, price[link] * use, jobs)
        load = np.bincount(link, use * pays[job], links)
        price *= np.clip(load, 0.25, 4.0) ** GAIN
    cost = np.bincount(job, price[link] * use, jobs)
    # A job that crosses no crowded link costs nothing; a hair of a price keeps the order defined.
    return np.argsort(-(weight / (cost + 1e-9 * weight)), kind="stable")


def rates_by_price(weight: Floats, job: Ints, link: Ints, flows: Floats, capacity_bps: Floats) -> list[float]:
    """The rate of each job's flows; entry i says that `flows[i]` of `job[i]` cross `link[i]`, jobs in order."""
    first = np.searchsorted(job, np.arange(len(weight) + 1))
    alone_bps = np.minimum.reduceat(capacity_bps[link] / flows, first[:-1])
    order = price_order(weight, job, link, flows * alone_bps[job] / capacity_bps[link])
    uses = list(zip(link.tolist(), flows.tolist(), strict=True))
    at = first.tolist()
    return in_turn(
        [uses[at[place] : at[place + 1]] for place in range(len(weight))], order.tolist(), capacity_bps.tolist()
    )


def in_turn(uses: Sequence[Iterable[tuple[Any, float]]], order: Iterable[int], left_bps: Any) -> list[float]:
    """Each job takes what those before it left; of each job: its links, and how many of its flows cross each.

    `left_bps`: by link, of every link before the first job's turn; afterwards what is left.
    """
    rates = [0.0] * len(uses)
    for index in order:
        rate = rates[index] = max(0.0, min([left_bps[link] / flows for link, flows in uses[index]]))
        if rate:
            for link, flows in uses[index]:
                left_bps[link] -= flows * rate
    return rates
