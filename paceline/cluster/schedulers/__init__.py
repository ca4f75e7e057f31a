"""Schedulers, by the name on the command line: those of papers, and every plain placement first come, first served.

With +cassini after its name a scheduler chooses among its own candidates the placement whose jobs interleave best. The
order `srsf` replaces its ranks. A new scheduler is one file here and one line below.
"""

from collections.abc import Callable
from functools import partial

from paceline.cluster.placement import PLACEMENTS
from paceline.cluster.schedulers import dally, elasticflow, gandiva, hived, themis
from paceline.cluster.schedulers.base import FirstComeFirstServed, Scheduler
from paceline.cluster.schedulers.tiresias import Tiresias
from paceline.cluster.schedulers.titan import Titan
from paceline.cluster.schedulers.wrappers import Choose, Interleaved, ShortestFirst, first
from paceline.cluster.titan.nimp import unlimited

PLAIN = PLACEMENTS | {
    "elasticflow": elasticflow.place,
    "elasticflow-exact": elasticflow.place_exactly,
    "hived": hived.place,
}
VARIANTS: dict[str, Callable[[], Scheduler]] = {
    **gandiva.VARIANTS,
    "tiresias": Tiresias,
    "tiresias-exact": partial(Tiresias, exact=True),
    **themis.VARIANTS,
    **dally.VARIANTS,
}
OWN = (*PLAIN, *VARIANTS, "titan")
INTERLEAVED = "+cassini"
NAMES = (*OWN, *(f"{name}{INTERLEAVED}" for name in OWN))
ORDERS = ("arrival", "srsf")


def scheduler(
    name: str,
    *,
    order: str = "arrival",
    backfill: bool = False,
    collective: str = "halving-doubling",
    limit_bytes: Callable[[str, str], float] = unlimited,
    choose: Choose = first,
) -> Scheduler:
    """A fresh scheduler: some remember what jobs waited. `backfill` is for plain placements, the next two arguments are
    for Titan, and `choose` says which of several placements interleaves best."""
    made = _own(name.removesuffix(INTERLEAVED), backfill, collective, limit_bytes)
    if name.endswith(INTERLEAVED):
        made = Interleaved(made, choose)
    return ShortestFirst(made) if order == "srsf" else made


def _own(name: str, backfill: bool, collective: str, limit_bytes: Callable[[str, str], float]) -> Scheduler:
    if name in PLAIN:
        return FirstComeFirstServed(PLAIN[name], backfill=backfill)
    if name == "titan":
        return Titan(collective, limit_bytes)
    return VARIANTS[name]()


__all__ = ["NAMES", "ORDERS", "OWN", "Scheduler", "scheduler"]
