"""How a host divides its own link between flows of jobs and the traffic of others, where both want much of it.

TCP would divide it by connections, so that is what each is guaranteed:

    others         link · n / (n + W)       n their connections, W = Σ of what each flow that sends counts for
    flow i         r_i · (link − others) / max(link − others, Σ r)

r is what the flow was promised, or, where nobody limits it, its part of the link by its weight. Whatever anybody leaves
of a guarantee the rest may borrow. Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from paceline.flowcore.model.units import UNLIMITED

Key = TypeVar("Key")


class Want(NamedTuple):
    """Of a flow: its guarantee (UNLIMITED: nobody limits it), and for how many flows it counts."""

    rate_bps: float
    weight: float = 1.0


def others_part(connections: int, weights: float) -> float:
    """Of a link."""
    return connections / (connections + weights) if connections else 0.0


def divide(link_bps: float, connections: int, wants: Mapping[Key, Want]) -> tuple[float, dict[Key, float]]:
    """What others are guaranteed, and each flow; `wants` are of those that send."""
    weights = sum(want.weight for want in wants.values())
    others_bps = link_bps * others_part(connections, weights)
    asked = {
        key: min(link_bps, link_bps * want.weight / weights if want.rate_bps >= UNLIMITED else want.rate_bps)
        for key, want in wants.items()
    }
    left_bps = link_bps - others_bps
    part = left_bps / max(left_bps, sum(asked.values()), 1.0)
    return others_bps, {key: part * rate_bps for key, rate_bps in asked.items()}
