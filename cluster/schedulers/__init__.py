"""Schedulers, by the name people type: those of a paper, and every plain placement first come, first served.

A new one is one file here and one line below.
"""

from collections.abc import Callable

from cluster.nimp import unlimited
from cluster.placement import PLACEMENTS
from cluster.schedulers import elasticflow, hived
from cluster.schedulers.base import InOrder, Scheduler
from cluster.schedulers.dally import VARIANTS, Dally
from cluster.schedulers.gandiva import Gandiva
from cluster.schedulers.tiresias import Tiresias
from cluster.schedulers.titan import Titan

PLAIN = PLACEMENTS | {"elasticflow": elasticflow.place, "hived": hived.place}
NAMES = (*PLAIN, "gandiva", "tiresias", "titan", *VARIANTS)


def scheduler(
    name: str,
    *,
    backfill: bool = False,
    collective: str = "halving-doubling",
    limit_bytes: Callable[[str, str], float] = unlimited,
) -> Scheduler:
    """A fresh one: some remember what jobs waited. `backfill` is for plain placements, the rest for Titan."""
    if name in PLAIN:
        return InOrder(PLAIN[name], backfill=backfill)
    if name in VARIANTS:
        return Dally(VARIANTS[name])
    if name == "titan":
        return Titan(collective, limit_bytes)
    return {"gandiva": Gandiva, "tiresias": Tiresias}[name]()


__all__ = ["NAMES", "Scheduler", "scheduler"]
