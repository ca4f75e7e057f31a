"""How far a flow may send beyond its share: up to what its links have left beyond the shares of all flows.

    ceiling_f = max( share_f,  min over l in L_f of  u_l − Σ_g share_g + own_f(l) )

own_f(l) is what of the sum is the flow's to use:

    its own share, at least
    all that its host was given on that link, where the shares of its host fill the NIC: HTB serves guarantees first, so
        what it takes there is what the host's other flows leave. On a NIC with room it would come on top of them, and
        further on at the expense of other hosts
    all of it, where no other job was given anything: held to its own shares a job would lose what one of its flows
        leaves, and no other job would gain

Over arrays, one row per flow, so that a switch with two flows and a simulator with thousands use one rule. A path is
a row of link numbers, filled up with the number of a link of infinite capacity.
"""

import numpy as np
import numpy.typing as npt

# Shares that fill a link but for rounding fill it.
NEARLY_ALL = 0.999

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def ceilings(share_bps: Floats, paths: Ints, host: Ints, job: Ints, capacity_bps: Floats) -> tuple[Floats, Floats]:
    """The ceiling of every flow, and the sum of the shares on every link."""
    per_hop = np.repeat(share_bps, paths.shape[1])
    taken: Floats = np.bincount(paths.ravel(), per_hop, len(capacity_bps)).astype(np.float64)
    nic = paths[:, 0]
    full = taken[nic] >= NEARLY_ALL * capacity_bps[nic]
    own = per_hop.reshape(paths.shape)
    if full.any():
        own = np.where(full[:, None], _sums(per_hop, paths, host), own)
    of_job = _sums(per_hop, paths, job)
    own = np.where(of_job >= NEARLY_ALL * taken[paths], of_job, own)
    left = capacity_bps[paths] - taken[paths] + own
    return np.maximum(share_bps, left.min(axis=1)), taken


def _sums(per_hop: Floats, paths: Ints, owner: Ints) -> Floats:
    """At each hop of each flow: what the flows of the same owner have there together."""
    keys = (paths * (int(owner.max()) + 1) + owner[:, None]).ravel()
    _, place = np.unique(keys, return_inverse=True)
    sums: Floats = np.bincount(place.ravel(), per_hop).astype(np.float64)
    return sums[place].reshape(paths.shape)
