"""What switches tell each other where jobs of several racks meet (switch/arbitration.py).

A child sends up the claims that it cannot divide by itself; its parent answers with the shares that changed, or, within
a slot, that none did.
"""

from dataclasses import dataclass
from typing import NamedTuple

from paceline.flowcore.messages.reports import Claim
from paceline.flowcore.model.patterns import FlowId


class Share(NamedTuple):
    """What arbitration gives a flow: a guaranteed rate, and how far beyond it may borrow."""

    flow: FlowId
    share_bps: float
    ceiling_bps: float
    stands_for: float = 1.0  # beside cross traffic it counts for so many flows (switch/standing.py)


@dataclass(frozen=True, slots=True)
class EscalatedClaims:
    """Child to parent: claims whose group of jobs reaches beyond the child; renews them there."""

    sender: str
    claims: tuple[Claim, ...]
    withdrawn: tuple[FlowId, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """Parent to child: the shares that changed; none: the claims have arrived."""

    sender: str
    shares: tuple[Share, ...]
