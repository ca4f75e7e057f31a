"""Flow policies, by the name people type. All of them run in the same two agents.

HOLDING are for daemons: the simulator holds whole jobs back itself, with the same gates and shifts
(sim/array/gating.py), unless it is asked to run the agents.
"""

from typing import Any

from paceline.flowcore.host.policy import Policy
from paceline.flowcore.model.fields import Field, Value, one_of
from paceline.flowcore.policy.ccml import Ccml
from paceline.flowcore.policy.crux import Crux
from paceline.flowcore.policy.fair import Fair, FairPenalty
from paceline.flowcore.policy.holding import Adadual, Srsf1, Srsf2, Srsf3
from paceline.flowcore.policy.mcs import Mcs, McsPipelined
from paceline.flowcore.policy.mlcc import Mlcc, MlccOpen
from paceline.flowcore.policy.mltcp import Mltcp, Mltcp4
from paceline.flowcore.policy.order import Fifo, Srpt
from paceline.flowcore.policy.paceline import OBJECTIVES, Paceline
from paceline.flowcore.policy.shifted import Cassini

ALL = (Fair, FairPenalty, Mltcp, Mltcp4, Fifo, Srpt, Crux, Mcs, McsPipelined, Ccml, Mlcc, MlccOpen, Paceline)

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in ALL}

HOLDING: dict[str, type[Policy]] = {policy.name: policy for policy in (Cassini, Adadual, Srsf1, Srsf2, Srsf3)}

FOR_DAEMONS = (*(name for name, policy in POLICIES.items() if not policy.simulated), *HOLDING)


def policy_named(name: str) -> Policy:
    """One of POLICIES, and after colons what is chosen of its options: mlcc:ready:open."""
    policy, *options = name.split(":")
    return (POLICIES | HOLDING)[policy](*options)


# What daemons are told of a policy; `policy_from` makes its name of them.
POLICY_FIELDS = {
    "policy": Field(one_of(*FOR_DAEMONS), Paceline.name),
    "objective": Field(one_of(*OBJECTIVES), OBJECTIVES[0]),
}


def policy_from(root: Value, found: dict[str, Any]) -> str:
    """The policy's name with the objective in it, which is so compared wherever daemons compare their policies. Takes
    both keys out of what was found."""
    policy, objective = str(found.pop("policy")), str(found.pop("objective"))
    if objective == OBJECTIVES[0]:
        return policy
    if objective not in (POLICIES | HOLDING)[policy].options:
        raise root.at("objective").wrong(f"nothing, or policy = {Paceline.name!r}: {policy} has no choice of one")
    return f"{policy}:{objective}"


__all__ = ["FOR_DAEMONS", "HOLDING", "POLICIES", "POLICY_FIELDS", "Policy", "policy_from", "policy_named"]
