"""How far a flow may send beyond its share: up to what its links have left beyond the shares of all flows.

    ceiling_f = max( share_f,  min over l in L_f of  (u_l − Σ_g share_g) / n_f(l) + own_f(l) )

own_f(l) is what of the sum is the flow's to use:

    its own share, at least
    all that its host was given on that link, where the shares of its host fill the NIC: HTB serves guarantees first, so
        what it takes there is what the host's other flows leave. On a NIC with room it would come on top of them, and
        further on at the expense of other hosts
    all of it, where no other job was given anything: held to its own shares a job would lose what one of its flows
        leaves, and no other job would gain

n_f(l) is among how many hosts what is left is divided. A flow that was given a share, or whose job has the link to
itself, or on its own NIC, where HTB serves guarantees first: 1. Else the flow waits for a turn, and n is the number of
hosts with waiting flows that no full link holds up. Each of them alone could take all that is left; together they would
take more, and since a link knows no guarantees, from those whose turn it is. These would then leave unused what they
were given on their other links, where nobody may have it: of many jobs on few uplinks, a third of all shares
(docs/papers.md, MLCC).

Twice, since arrays cost more than they save where few flows meet: `ceilings_of_few` goes flow by flow, `ceilings` has
one row per flow; a property test holds them together. In arrays a path is a row of link numbers, filled up with the
number of a link of infinite capacity.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import inf

import numpy as np
import numpy.typing as npt

# Shares that fill a link but for rounding fill it, and one that is nothing beside its NIC is none.
NEARLY_ALL = 0.999
NEXT_TO_NOTHING = 1.0 - NEARLY_ALL

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
    full_links = {link for link, bps in taken.items() if bps >= NEARLY_ALL * capacity_bps[link]}
    waits = [bool(path) and _waits(share, capacity_bps[path[0]]) for share, path in zip(share_bps, paths, strict=True)]
    hosts: dict[str, set[Hashable]] = {}  # with flows that wait and that no full link holds up
    for waiting, path, its_host in zip(waits, paths, host, strict=True):
        if waiting and full_links.isdisjoint(path):
            for link in path:
                hosts.setdefault(link, set()).add(its_host)
    found = []
    for share, path, its_host, its_job, waiting in zip(share_bps, paths, host, job, waits, strict=True):
        full = bool(path) and path[0] in full_links
        least = inf
        for hop, link in enumerate(path):
            on_link = taken[link]
            left, own = capacity_bps[link] - on_link, of_job[link, its_job]
            if own < NEARLY_ALL * on_link:
                own = of_host[link, its_host] if full else share
                if waiting and hop and link in hosts:
                    left /= len(hosts[link])
            if left + own < least:
                least = left + own
        found.append(max(share, least))
    return found, taken


def _waits(share_bps: float, nic_bps: float) -> bool:
    """It was given nothing."""
    return share_bps <= NEXT_TO_NOTHING * nic_bps


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
    alone = of_job >= NEARLY_ALL * taken[paths]
    own = np.where(alone, of_job, own)
    waits = share_bps <= NEXT_TO_NOTHING * capacity_bps[nic]
    among = np.where(waits[:, None] & ~alone, _hosts_waiting(waits, taken, paths, host, capacity_bps)[paths], 1)
    among[:, 0] = 1
    left = (capacity_bps[paths] - taken[paths]) / among + own
    return np.maximum(share_bps, left.min(axis=1)), taken


def _hosts_waiting(waits: Bools, taken: Floats, paths: Ints, host: Ints, capacity_bps: Floats) -> Ints:
    """By link: how many hosts have flows there that wait and that no full link holds up; at least 1."""
    open_links = taken < NEARLY_ALL * capacity_bps
    able = waits & open_links[paths].all(axis=1)
    hosts = int(host.max()) + 1
    there = np.unique((paths * hosts + host[:, None])[able]) // hosts
    return np.maximum(1, np.bincount(there, minlength=len(capacity_bps)))


def _sums(per_hop: Floats, paths: Ints, owner: Ints) -> Floats:
    """At each hop of each flow: what the flows of the same owner have there together."""
    keys = (paths * (int(owner.max()) + 1) + owner[:, None]).ravel()
    _, place = np.unique(keys, return_inverse=True)
    sums: Floats = np.bincount(place.ravel(), per_hop).astype(np.float64)
    return sums[place].reshape(paths.shape)
