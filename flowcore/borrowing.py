"""How far a flow may send beyond its share: up to what its links have left beyond everybody's shares.

    ceiling_f = max( share_f,  min over l in L_f of  u_l − Σ_g share_g + own_f(l) )

own_f(l) is what of the sum is the flow's to use: its own share; and where the shares of its host fill the NIC, all
that its host was given on that link, because HTB serves guarantees first, so that what it takes there is what its
neighbours leave. On a NIC with room it would come on top of them, and further on at the expense of other hosts.

Over arrays, one row per flow, so that a switch with two flows and a simulator with thousands use one rule. A path is
a row of link numbers, filled up with the number of a link of infinite capacity.
"""

import numpy as np
import numpy.typing as npt

# Shares that fill a link but for rounding fill it.
NEARLY_ALL = 0.999

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def ceilings(share_bps: Floats, paths: Ints, host: Ints, capacity_bps: Floats) -> tuple[Floats, Floats]:
    """The ceiling of every flow, and the sum of the shares on every link."""
    shape = paths.shape
    per_hop = np.repeat(share_bps, shape[1])
    taken: Floats = np.bincount(paths.ravel(), per_hop, len(capacity_bps)).astype(np.float64)
    nic = paths[:, 0]
    full = taken[nic] >= NEARLY_ALL * capacity_bps[nic]
    own = per_hop.reshape(shape)
    if full.any():
        keys = (paths * (int(host.max()) + 1) + host[:, None]).ravel()
        _, place = np.unique(keys, return_inverse=True)
        of_host = np.bincount(place.ravel(), per_hop)[place].reshape(shape)
        own = np.where(full[:, None], of_host, own)
    left = capacity_bps[paths] - taken[paths] + own
    return np.maximum(share_bps, left.min(axis=1)), taken
