"""Dependent flows keep in step: Algorithm 2 of MLCC, §IV-C.

F_i is what flow i has sent plus what it plans for the current slot. With j the flows that feed i (aggregation
flows for a broadcast, the arriving flow for a ring member) and k those it feeds:

    increase   broadcast, ring:  Δ_i = (min_j F_j − F_i)+          catch up with what has arrived
               aggregation:      Δ_i = (max_k F_k − F_i)+          the server could already send more
    apply      r + Δ/t̂ if that is below B_i, else B_i;  r itself if Δ = 0
    decrease   r − (F_i − min_j F_j − W_i)+/t̂                      do not reserve for bytes that are not there

Invariant: what a flow has planned never exceeds the least that an upstream flow has planned by more than W_i, so a
server never broadcasts more than the least it aggregated (W = 0), nor a ring member more than it received plus its own
chunk.

Deviations from §IV-C. (1) The ring's window W = M/n, see patterns.py. (2) F counts over all iterations, not since
the iteration's start: two hosts notice the start of an iteration at different times, and between the two
notices a counter that starts anew is off by a whole iteration. All flows of a job carry the same volume per
iteration, so differences of F are the same either way.
"""

from paceline.flowcore.model.patterns import Role


def shortfall_bytes(role: Role, volume_bytes: float, upstream_bytes: float, downstream_bytes: float) -> float:
    """Δ_i: how far the flow is behind the flows it should keep up with."""
    ahead = downstream_bytes if role is Role.PUSH else upstream_bytes
    return max(ahead - volume_bytes, 0.0)


def excess_bytes(volume_bytes: float, upstream_bytes: float, window_bytes: float) -> float:
    """How far the flow's plan is ahead of what its upstream flows will have delivered."""
    return max(volume_bytes - upstream_bytes - window_bytes, 0.0)


def increased_bps(rate_bps: float, shortfall_bps: float, bandwidth_bps: float) -> float:
    """Lines 5–11: the planned rate, raised by the shortfall as far as B_i allows."""
    if shortfall_bps <= 0.0:
        return rate_bps
    return min(rate_bps + shortfall_bps, bandwidth_bps)
