"""Network tiers: all GPUs of a job on one machine, in one rack, or anywhere (Dally §I).

`find` gives a job its GPUs on a tier, as consolidated as the tier allows and as tightly as it can: the machine (rack)
that has the least left over, within it the fewest machines, across racks the fewest racks.
"""

from collections.abc import Mapping
from enum import IntEnum

from paceline.cluster.state import Workers, fill


class Tier(IntEnum):
    MACHINE = 0
    RACK = 1
    NETWORK = 2


def tier_of(workers: Workers, rack_of: Mapping[str, str]) -> Tier:
    if len(workers) == 1:
        return Tier.MACHINE
    return Tier.RACK if len({rack_of[server] for server in workers}) == 1 else Tier.NETWORK


def best_tier(gpus: int, gpus_per_server: int, rack_of: Mapping[str, str]) -> Tier:
    """The best a job of so many GPUs can ever have here."""
    if gpus <= gpus_per_server:
        return Tier.MACHINE
    sizes: dict[str, int] = {}
    for rack in rack_of.values():
        sizes[rack] = sizes.get(rack, 0) + gpus_per_server
    return Tier.RACK if gpus <= max(sizes.values()) else Tier.NETWORK


def find(tier: Tier, gpus: int, free: Workers, rack_of: Mapping[str, str]) -> Workers | None:
    """The GPUs for a job on this tier, or None if the tier has not enough."""
    if tier is Tier.MACHINE:
        fitting = [server for server, idle in free.items() if idle >= gpus]
        return {min(fitting, key=free.__getitem__): gpus} if fitting else None
    racks: dict[str, list[str]] = {}
    totals: dict[str, int] = {}
    for server, idle in free.items():
        if idle:
            racks.setdefault(rack_of[server], []).append(server)
            totals[rack_of[server]] = totals.get(rack_of[server], 0) + idle
    if tier is Tier.RACK:
        roomy = [rack for rack, total in totals.items() if total >= gpus]
        chosen = [min(roomy, key=totals.__getitem__)] if roomy else []
    else:
        chosen = sorted(totals, key=lambda rack: -totals[rack])
    servers = [server for rack in chosen for server in sorted(racks[rack], key=lambda server: -free[server])]
    return fill(servers, gpus, free)
