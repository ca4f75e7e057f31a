"""Flow policies, by the name people type. All of them run in the same two agents."""

from flowcore.policy.base import Policy
from flowcore.policy.ccml import Ccml
from flowcore.policy.fair import Fair, FairPenalty
from flowcore.policy.mcs import Mcs
from flowcore.policy.mlcc import Mlcc
from flowcore.policy.order import Fifo, Srpt
from flowcore.policy.paceline import Paceline

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (Fair, FairPenalty, Fifo, Srpt, Mcs, Ccml, Mlcc, Paceline)
}

FOR_DAEMONS = tuple(name for name, policy in POLICIES.items() if not policy.simulated)

__all__ = ["FOR_DAEMONS", "POLICIES", "Policy"]
