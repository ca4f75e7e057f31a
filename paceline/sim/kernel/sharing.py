"""Max-min sharing and HTB over arrays: what fairshare and the reference network compute, thousands of flows at a time.

Progressive filling, many links at once. With w_l the weights of the flows still growing on link l and R_l left of it,
l fills at the level R_l/w_l. A link is a bottleneck as soon as none of its flows is held below that level by its
ceiling or by another link: from there on levels elsewhere only rise, so its flows are done, whatever happens to other
flows. Every round fills all such links together, and a few rounds do where one link at a time would take hundreds.
Levels only rise, so flows with a limit below the lowest level are done before the first round; in a crowd that waits
for its turn these are most.

A path is a row of link numbers, filled up with the number of a link of infinite capacity.
"""

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints

# Levels that differ by rounding are the same level.
_SAME = 1.0 - 1e-12


def max_min(paths: Ints, ceilings: Floats, capacity: Floats, weights: Floats | None = None) -> Floats:
    """The rate of each flow, as paceline.flowcore.allocation.fairshare.max_min gives it."""
    rates = ceilings.copy()
    links, width = len(capacity), paths.shape[1]
    left, weight = capacity.copy(), np.ones(len(ceilings)) if weights is None else weights
    weight_on = np.bincount(paths.ravel(), np.repeat(weight, width), links)
    limits = ceilings / weight
    with np.errstate(divide="ignore", invalid="ignore"):
        level = left / weight_on
        sure = limits <= np.nanmin(level[:-1], initial=np.inf)
        rates[sure] = filled = np.maximum(ceilings[sure], 0.0)
        left -= np.bincount(paths[sure].ravel(), np.repeat(filled, width), links)
        weight_on -= np.bincount(paths[sure].ravel(), np.repeat(weight[sure], width), links)
        growing, limits, hops = np.flatnonzero(~sure), limits[~sure], paths[~sure]
        while len(growing):
            level = left / weight_on
            level[-1] = np.inf
            at = level[hops]
            reached = np.minimum(at.min(axis=1), limits)
            held_below = reached[:, None] < at * _SAME
            open_links = np.bincount(hops.ravel(), held_below.ravel(), links) > 0
            done = (limits <= reached) | (~open_links[hops]).any(axis=1)
            if not done.any():
                done[np.argmin(reached)] = True  # rounding left no clear bottleneck
            stops = growing[done]
            filled = np.where(limits[done] <= reached[done], ceilings[stops], weight[stops] * reached[done])
            rates[stops] = filled = np.maximum(filled, 0.0)
            left -= np.bincount(hops[done].ravel(), np.repeat(filled, width), links)
            weight_on -= np.bincount(hops[done].ravel(), np.repeat(weight[stops], width), links)
            growing, limits, hops = growing[~done], limits[~done], hops[~done]
    return rates


def htb(wanted: Floats, guaranteed: Floats, nic: Ints, capacity: Floats) -> Floats:
    """What the class trees of many NICs give to their leaves, as paceline.sim.reference.network.htb does for one."""
    links = nic[:, None]
    base = max_min(links, np.minimum(wanted, guaranteed), capacity)
    left = np.maximum(capacity - np.bincount(nic, base, len(capacity)), 0.0)
    return base + max_min(links, wanted - base, left)
