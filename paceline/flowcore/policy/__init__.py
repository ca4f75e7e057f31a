"""Flow policies, by the name people type. All of them run in the same two agents.

HOLDING are for daemons alone: the simulator holds whole jobs back itself, with the same gates (sim/array/gating.py).
"""

from paceline.flowcore.host.policy import Policy
from paceline.flowcore.policy.ccml import Ccml
from paceline.flowcore.policy.crux import Crux
from paceline.flowcore.policy.fair import Fair, FairPenalty
from paceline.flowcore.policy.holding import Adadual, Srsf1, Srsf2, Srsf3
from paceline.flowcore.policy.mcs import Mcs, McsPipelined
from paceline.flowcore.policy.mlcc import Mlcc, MlccOpen
from paceline.flowcore.policy.mltcp import Mltcp, Mltcp4
from paceline.flowcore.policy.order import Fifo, Srpt
from paceline.flowcore.policy.paceline import Paceline

ALL = (Fair, FairPenalty, Mltcp, Mltcp4, Fifo, Srpt, Crux, Mcs, McsPipelined, Ccml, Mlcc, MlccOpen, Paceline)

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in ALL}

HOLDING: dict[str, type[Policy]] = {policy.name: policy for policy in (Adadual, Srsf1, Srsf2, Srsf3)}

FOR_DAEMONS = (*(name for name, policy in POLICIES.items() if not policy.simulated), *HOLDING)


def policy_named(name: str) -> Policy:
    """One of POLICIES, and after colons what is chosen of its options: mlcc:ready:open."""
    policy, *options = name.split(":")
    return (POLICIES | HOLDING)[policy](*options)


__all__ = ["FOR_DAEMONS", "HOLDING", "POLICIES", "Policy", "policy_named"]
