"""fair: no flow is paced. What remains is TCP, whose ideal is max-min fair sharing of the links.

fair-penalty is TCP as Ada-SRSF measured it: jobs that collide on a link lose part of it (fairshare.contended_bps).
"""

from typing import ClassVar

from paceline.flowcore.host.policy import Policy


class Fair(Policy):
    name = "fair"
    paced: ClassVar[bool] = False


class FairPenalty(Fair):
    name = "fair-penalty"
    # η/b on 10 Gbit/s Ethernet, as in the simulator of Ada-SRSF's authors.
    contention: ClassVar[float] = 0.235 / 0.856
