"""The phase of a flow on its host, and everything that changes it.

             bytes wait          claim           grant
     IDLE ─────────────▶ READY ────────▶ ASKED ────────▶ GRANTED ──almost through: claim withdrawn──▶ RELEASED
      ▲                                    │  ◀──────────  │ │ ◀───────────────claim: it was not───────┘
      │                                    │  grant lost   │ └──share unused: claim withdrawn──▶ STALLED
      │                                    │               │   ◀────────claim: bytes move again─────┘
      └── all sent ◀───────────────────────┴───────────────┴── SENT until the claim is withdrawn

A flow is *live* while it has bytes waiting, and *claimed* while the switch counts it: the two overlap, but a claim may
outlive the last byte (SENT), and bytes may outlive a claim. RELEASED: the successor's grant shall arrive as the last
byte leaves. STALLED: the flow was given a share and moved nothing, through no fault of the network (a collective that
hangs, a member that computes longer); a claim that is not used must hold no other flow back.

A grant that arrives outside ASKED is used all the same: the switch has news. RELEASED, too, is a flow that nobody
competes with, for as long as that is so.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from paceline.flowcore.detect.stalls import StallDetector
from paceline.flowcore.messages.reports import Grant


class Phase(Enum):
    #           live   claimed
    IDLE = "idle", False, False
    READY = "ready", True, False  # the switch does not know yet
    ASKED = "asked", True, True  # without a grant so far
    GRANTED = "granted", True, True
    RELEASED = "released", True, False  # its claim was withdrawn because it was almost through
    STALLED = "stalled", True, False  # ... because it did not use its share
    SENT = "sent", False, True  # its claim is still to be withdrawn

    def __init__(self, label: str, live: bool, claimed: bool) -> None:
        self.label, self.live, self.claimed = label, live, claimed


def all_stalled(phases: Collection[Phase]) -> bool:
    """Of the flows of a job on one host: bytes of it wait, and none of them through the network's fault."""
    return Phase.STALLED in phases and all(phase is Phase.STALLED for phase in phases if phase.live)


@dataclass(slots=True)
class PhasedFlow:
    """What a flow's phase is made of. Only the methods here change it."""

    phase: Phase = Phase.IDLE
    ready_ns: int = 0  # since when its bytes have been waiting
    released_ns: int = 0  # when its claim was withdrawn although it was live
    grant: Grant | None = None  # the last answer in this iteration ...
    grant_slot: int = 0  # ... and the slot its numbers begin with
    stalls: StallDetector = field(default_factory=StallDetector)
    stalled_bytes: float = 0.0  # what it had sent when its claim was withdrawn because it stalled

    @property
    def live(self) -> bool:
        """It has bytes waiting."""
        return self.phase.live

    @property
    def claimed(self) -> bool:
        """The switch knows it."""
        return self.phase.claimed

    def bytes_wait(self, now_ns: int) -> None:
        """Those of the next iteration. A claim that was never withdrawn still stands."""
        self.phase = Phase.ASKED if self.claimed else Phase.READY
        self.ready_ns, self.grant = now_ns, None

    def claim(self) -> None:
        self.phase = Phase.ASKED if self.grant is None else Phase.GRANTED

    def take_grant(self, grant: Grant, first_slot: int) -> None:
        self.grant, self.grant_slot = grant, first_slot
        if self.phase is Phase.ASKED:
            self.phase = Phase.GRANTED

    def lose_grant(self) -> None:
        """It means nothing any more: the switch is another, or the time, or the flow lasts longer than foreseen."""
        self.grant = None
        if self.phase is Phase.GRANTED:
            self.phase = Phase.ASKED

    def withdraw(self, now_ns: int, *, stalled: bool = False) -> bool:
        """False if there was no claim to withdraw."""
        if not self.claimed:
            return False
        if self.phase is Phase.SENT:
            self.phase = Phase.IDLE
        else:
            self.phase, self.released_ns = Phase.STALLED if stalled else Phase.RELEASED, now_ns
        return True

    def all_sent(self) -> None:
        self.phase = Phase.SENT if self.claimed else Phase.IDLE
