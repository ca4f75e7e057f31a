"""A path's grant, from what each switch on it says: available = min, load = Σ, accepted = all, alone = max."""

from collections.abc import Iterable

from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.units import UNLIMITED


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
    """The path's grant. Shares are not merged: they come from one place, the arbitration that divided the group."""
    grants = [own, *others]
    _, accepted, _, _, available_bps, load, alone_ns, upstream_bytes, downstream_bytes, _, uncontended = zip(
        *grants, strict=True
    )
    return Grant(
        flow=own.flow,
        accepted=all(accepted),
        share_bps=own.share_bps,
        ceiling_bps=own.ceiling_bps,
        available_bps=tuple(map(min, *available_bps)),
        load=tuple(map(sum, zip(*load, strict=True))),
        alone_ns=max(alone_ns),
        # A switch knows F of the flows that cross it: one that knows all upstream flows has the largest minimum.
        upstream_bytes=max(upstream_bytes),
        downstream_bytes=max(downstream_bytes),
        stands_for=own.stands_for,
        uncontended=all(uncontended),
    )
