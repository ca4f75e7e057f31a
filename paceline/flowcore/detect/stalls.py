"""Shares that lie unused, slot by slot.

A flow may announce bytes and send none: its collective hangs, another member of its job computes longer, its peer
reads nothing. Then the network is not what holds the flow up, and the link that was promised to it lies idle. So where
a flow was promised a share for most of a slot and sent less than USED of it, the share is *unused*: its host withdraws
the claim, and claims again when bytes move.

A flow that trickles would win its share back slot after slot and use it never. Each share that stays unused doubles how
long the flow must wait before it may claim again, up to LONGEST_WAIT_SLOTS; a share that is used ends that. So it
costs other flows at most one slot in LONGEST_WAIT_SLOTS + 1.
"""

from paceline.flowcore.messages.events import FLOOR_BPS

USED = 0.1  # of what was promised. Real flows on a busy machine fall behind now and then, but not to a tenth.
MOST_OF_A_SLOT = 0.5

# At its floor a flow is promised nothing, and TCP may well send nothing for a slot at such a rate.
LEAST_SHARE_BPS = 4 * FLOOR_BPS

# Bytes have moved again: half of what even the floor lets through in a slot.
MOVED_OF_FLOOR = 0.5

LONGEST_WAIT_SLOTS = 64


class StallDetector:
    """Of one flow."""

    __slots__ = ("_stalled_slot", "_wait_slots", "unused")

    def __init__(self) -> None:
        self.unused = False  # its share, in the last slot of this burst
        self._stalled_slot = 0  # when it was last seen not to use its share
        self._wait_slots = 0

    def begin_burst(self) -> None:
        """What the last burst did with its share says nothing about this one; how long the flow must wait stays."""
        self.unused = False

    def observe(self, slot: int, slot_ns: int, busy_ns: int, promised_bps: float, sent_bytes: float) -> None:
        """In the `busy_ns` of this slot in which bytes waited, the flow sent so many at a mean promise of so much."""
        if busy_ns < MOST_OF_A_SLOT * slot_ns or promised_bps < LEAST_SHARE_BPS:
            self.unused = False
            return
        self.unused = sent_bytes * 8e9 < USED * promised_bps * busy_ns
        if self.unused:
            self._stalled_slot = slot
            self._wait_slots = min(LONGEST_WAIT_SLOTS, max(1, 2 * self._wait_slots))
        else:
            self._wait_slots = 0

    def may_claim(self, slot: int, slot_ns: int, moved_bytes: float) -> bool:
        """Whether a stalled flow that has moved so many bytes since may try again."""
        moves = moved_bytes * 8e9 >= MOVED_OF_FLOOR * FLOOR_BPS * slot_ns
        return moves and slot - self._stalled_slot >= self._wait_slots
