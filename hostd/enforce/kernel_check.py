"""Whether the kernel holds a flow to what was decided: reading back is how a change by another program is noticed.

    guarantee ≤ kernel ≤ ceiling          htb has the guarantee itself, pacing what may be borrowed as well


Neither backend goes as low as it is asked: htb no lower than a bundle in 16 ms, a fiftieth of each device's link
(enforce/htb_device.py), pacing no lower than the floor of each socket. Up to LEAST_PART of the NIC nothing is said.
"""

from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.units import UNLIMITED

CLOSE = 0.2
LEAST_PART = 0.1


def agrees(decided: Limit, kernel_bps: float, nic_bps: float) -> bool:
    """With nothing guaranteed, or a guarantee that was lifted, any rate up to the ceiling will do."""
    guarantee_bps = 0.0 if decided.rate_bps >= UNLIMITED else min(decided.rate_bps, decided.ceiling_bps)
    return (1 - CLOSE) * guarantee_bps <= kernel_bps <= (1 + CLOSE) * max(decided.ceiling_bps, LEAST_PART * nic_bps)
