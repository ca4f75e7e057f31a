"""Names of policies: a flow policy, and what holds jobs back from communicating, joined by a plus.

    fair    paceline    fair+cassini    paceline+adadual    fair-penalty+srsf1

What holds jobs back has the flow policy `fair` if it is named alone: adadual is fair+adadual.
"""

from paceline.flowcore.allocation.gates import GATES
from paceline.flowcore.policy import POLICIES

CASSINI = "cassini"
COMMUNICATIONS = (CASSINI, *GATES)

POLICY_NAMES = (
    *POLICIES,
    *COMMUNICATIONS,
    *(f"{policy}+{communication}" for policy in POLICIES for communication in COMMUNICATIONS),
)


def parts(name: str) -> tuple[str, str | None]:
    """The flow policy and the communication scheduling of one of POLICY_NAMES."""
    policy, _, communication = name.partition("+")
    if policy in COMMUNICATIONS:
        return "fair", policy
    return policy, communication or None
