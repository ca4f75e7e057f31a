"""How long a ring all-reduce takes alone, where the real links are unknown or do not matter.

t = 2 (n − 1)/n · M / REFERENCE_GBPS        n members, M the model
"""

from paceline.flowcore.model.units import bps_from_gbps, bytes_from_mb

# The network that the traces were taken on: how much of an iteration was communication is estimated at this speed.
REFERENCE_GBPS = 10.0


def exchange_s(model_mb: float, members: int) -> float:
    """At the reference speed, with no other job on the links."""
    return 2 * (members - 1) / members * bytes_from_mb(model_mb) * 8 / bps_from_gbps(REFERENCE_GBPS)
