"""Max-min sharing and HTB over arrays: what fairshare and the reference network compute, thousands of flows at a time.

Progressive filling, many links at once. With n_l flows still growing on link l and R_l left of it, l fills at the
level R_l/n_l. A link is a bottleneck as soon as none of its flows is held below that level by its ceiling or by
another link: from there on levels elsewhere only rise, so its flows are done, whatever happens to other flows. Every
round fills all such links together, and a few rounds do where one link at a time would take hundreds.

A path is a row of link numbers, filled up with the number of a link of infinite capacity.
"""

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints

# Levels that differ by rounding are the same level.
_SAME = 1.0 - 1e-12


def max_min(paths: Ints, ceilings: Floats, capacity: Floats) -> Floats:
    """The rate of each flow, as paceline.flowcore.allocation.fairshare.max_min gives it."""
    rates = ceilings.copy()
    links, width = len(capacity), paths.shape[1]
    left = capacity.copy()
    growing = np.arange(len(ceilings))
    limits, hops = ceilings, paths
    with np.errstate(divide="ignore", invalid="ignore"):
        while len(growing):
            level = left / np.bincount(hops.ravel(), minlength=links)
            level[-1] = np.inf
            at = level[hops]
            reached = np.minimum(at.min(axis=1), limits)
            held_below = reached[:, None] < at * _SAME
            open_links = np.bincount(hops.ravel(), held_below.ravel(), links) > 0
            done = (limits <= reached) | (~open_links[hops]).any(axis=1)
            if not done.any():
                done[np.argmin(reached)] = True  # rounding left no clear bottleneck
            filled = np.maximum(reached[done], 0.0)
            rates[growing[done]] = filled
            left -= np.bincount(hops[done].ravel(), np.repeat(filled, width), links)
            growing, limits, hops = growing[~done], limits[~done], hops[~done]
    return rates


def htb(wanted: Floats, guaranteed: Floats, nic: Ints, capacity: Floats) -> Floats:
    """What the class trees of many NICs give to their leaves, as paceline.sim.reference.network.htb does for one."""
    links = nic[:, None]
    base = max_min(links, np.minimum(wanted, guaranteed), capacity)
    left = np.maximum(capacity - np.bincount(nic, base, len(capacity)), 0.0)
    return base + max_min(links, wanted - base, left)
