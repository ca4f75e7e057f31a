"""A path's grant, from what each switch on it says: available = min, load = Σ, accepted = all, alone = max."""

from collections.abc import Iterable

from flowcore.messages import Grant
from flowcore.units import UNLIMITED


def shifted(grant: Grant, slots: int) -> Grant:
    """The grant as seen some slots later; about slots it did not reach it says nothing."""
    if slots <= 0:
        return grant
    beyond = min(slots, len(grant.load))
    return grant._replace(
        available_bps=grant.available_bps[slots:] + (UNLIMITED,) * beyond,
        load=grant.load[slots:] + (0.0,) * beyond,
    )


def merged(own: Grant, others: Iterable[Grant]) -> Grant:
    """The path's grant. Shares are not merged: they come from one place, the arena that settled the group."""
    for other in others:
        own = Grant(
            flow=own.flow,
            accepted=own.accepted and other.accepted,
            share_bps=own.share_bps,
            ceiling_bps=own.ceiling_bps,
            available_bps=tuple(map(min, own.available_bps, other.available_bps)),
            load=tuple(a + b for a, b in zip(own.load, other.load, strict=True)),
            alone_ns=max(own.alone_ns, other.alone_ns),
            # A switch knows F of the flows that cross it: whoever knows all preds has the largest minimum.
            pred_bytes=max(own.pred_bytes, other.pred_bytes),
            follower_bytes=max(own.follower_bytes, other.follower_bytes),
        )
    return own
