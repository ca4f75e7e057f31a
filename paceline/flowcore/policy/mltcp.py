"""mltcp: no flow is paced, and TCP is MLTCP (HotNets 2024), whose flows weigh the more, the more they have sent.

What the weights are, and why jobs drift apart: allocation/aggressiveness.py. MLTCP takes a pause of 0.9 of the compute
time for the end of an iteration; the simulator knows where iterations end. On the testbed MLTCP is a congestion control
in the kernel (bench/mltcp), where slow start and losses are Reno's; a fluid network has neither.
"""

from typing import ClassVar

from paceline.flowcore.allocation.aggressiveness import PAPER, PUBLISHED_CODE, Aggressiveness
from paceline.flowcore.policy.fair import Fair


class Mltcp(Fair):
    name = "mltcp"
    simulated: ClassVar[bool] = True
    aggressiveness: ClassVar[Aggressiveness | None] = PAPER


class Mltcp4(Mltcp):
    """With the slope of its authors' code."""

    name = "mltcp-4"
    aggressiveness: ClassVar[Aggressiveness | None] = PUBLISHED_CODE
