"""Max-min fair sharing with ceilings and weights: the ideal of TCP, hence the baseline of MLCC §VII.

Progressive filling: all rates grow together, each in proportion to its flow's weight; a flow stops at its ceiling or
when a link on its path is full; the rest goes on. The result is the only allocation in which no rate can grow except at
the expense of one that is, by weight, not larger:

    every flow is at its ceiling, or crosses a full link on which no flow has a higher rate per weight.

With w_l the weights of the flows still growing on link l and R_l the capacity left by those that stopped, l is full at
the level R_l/w_l. A flow that stops below that level only raises it. So the levels in a heap are lower bounds, and one
that comes out too low goes back in, at most once per flow on the link: O(E log E) for E hops in all.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any


def max_min(
    paths: Sequence[Sequence[int]],
    ceilings: Sequence[float],
    capacity: Sequence[float],
    weights: Sequence[float] | None = None,
) -> list[float]:
    """The rate of each flow, from the links it crosses, its ceiling and the links' capacities; in any unit.

    A flow with an empty path gets its ceiling. `weights`: positive, and within a factor of a million; None: all equal.
    """
    weight = [1.0] * len(paths) if weights is None else weights
    flows_on: dict[int, list[int]] = {}
    weight_on: dict[int, float] = {}  # w_l
    for flow, path in enumerate(paths):
        for link in path:
            if link in flows_on:
                flows_on[link].append(flow)
                weight_on[link] += weight[flow]
            else:
                flows_on[link] = [flow]
                weight_on[link] = weight[flow]
    growing = {link: len(flows) for link, flows in flows_on.items()}
    left = {link: capacity[link] for link in flows_on}  # R_l
    level = [(left[link] / total, link) for link, total in weight_on.items()]
    heapify(level)

    rates = [-1.0] * len(paths)  # negative: still growing
    highest = ceilings if weights is None else [c / w for c, w in zip(ceilings, weights, strict=True)]
    for flow in sorted(range(len(paths)), key=highest.__getitem__):
        # Fill every link that is full before the level reaches this flow's ceiling.
        while level and level[0][0] < highest[flow]:
            lower_bound, link = level[0]
            if growing[link] == 0:
                heappop(level)
                continue
            reached = left[link] / weight_on[link]
            if reached > lower_bound:
                heapreplace(level, (reached, link))
                continue
            heappop(level)
            reached = max(0.0, reached)  # rounding can leave a hair less than nothing
            for stopped in flows_on[link]:
                if rates[stopped] < 0.0:
                    stops, rate = weight[stopped], weight[stopped] * reached
                    rates[stopped] = rate
                    for hop in paths[stopped]:
                        left[hop] -= rate
                        weight_on[hop] -= stops
                        growing[hop] -= 1
        if rates[flow] < 0.0:
            rates[flow] = ceilings[flow]
            for hop in paths[flow]:
                left[hop] -= ceilings[flow]
                weight_on[hop] -= weight[flow]
                growing[hop] -= 1
    return rates


def contended_bps(capacity_bps: Any, jobs: Any, eta_over_b: float) -> Any:
    """What a link carries while k jobs collide on it (Ada-SRSF, eq. 2), of one link or of arrays of links."""
    return capacity_bps / collision_factor(jobs, eta_over_b)


def collision_factor(jobs: Any, eta_over_b: float) -> Any:
    """k all-reduces of M bytes take k·b·M + (k−1)·η·M together where b·M each would do one after the other."""
    return 1.0 + eta_over_b * (jobs - 1) / jobs
