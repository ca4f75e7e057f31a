"""How far a flow may send beyond its share: up to what its links have left beyond the shares of all flows.

    ceiling_f = max( share_f,  min over l in L_f of  u_l − Σ_g share_g + own_f(l) )

own_f(l) is what of the sum is the flow's to use:

    its own share, at least
    all that its host was given on that link, where the shares of its host fill the NIC: HTB serves guarantees first, so
        what it takes there is what the host's other flows leave. On a NIC with room it would come on top of them, and
        further on at the expense of other hosts
    all of it, where no other job was given anything: held to its own shares a job would lose what one of its flows
        leaves, and no other job would gain

Twice, since arrays cost more than they save where few flows meet: `ceilings_of_few` goes flow by flow, `ceilings` has
one row per flow; a property test holds them together. In arrays a path is a row of link numbers, filled up with the
number of a link of infinite capacity.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import inf

import numpy as np
import numpy.typing as npt

# Shares that fill a link but for rounding fill it.
NEARLY_ALL = 0.999

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


FEW_FLOWS = 64


def ceilings_of_few(
    share_bps: Sequence[float],
    paths: Sequence[Sequence[str]],
    host: Sequence[Hashable],
    job: Sequence[Hashable],
    capacity_bps: Mapping[str, float],
) -> tuple[list[float], dict[str, float]]:
    """The ceiling of every flow, and the sum of the shares on every link that a path crosses."""
    taken: dict[str, float] = {}
    of_host: dict[tuple[str, Hashable], float] = {}
    of_job: dict[tuple[str, Hashable], float] = {}
    for share, path, its_host, its_job in zip(share_bps, paths, host, job, strict=True):
        for link in path:
            taken[link] = taken.get(link, 0.0) + share
            of_host[link, its_host] = of_host.get((link, its_host), 0.0) + share
            of_job[link, its_job] = of_job.get((link, its_job), 0.0) + share
    found = []
    for share, path, its_host, its_job in zip(share_bps, paths, host, job, strict=True):
        full = bool(path) and taken[path[0]] >= NEARLY_ALL * capacity_bps[path[0]]
        least = inf
        for link in path:
            on_link = taken[link]
            own = of_job[link, its_job]
            if own < NEARLY_ALL * on_link:
                own = of_host[link, its_host] if full else share
            left = capacity_bps[link] - on_link + own
            if left < least:
                least = left
        found.append(max(share, least))
    return found, taken


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
