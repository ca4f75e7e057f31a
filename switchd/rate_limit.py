"""How much a peer may say in a slot, over whatever streams and calls it comes; beyond that it is turned away.

All peers share one thread: what one of them says, the others wait for. A message costs something by itself, then by
the flows it speaks of, and by its bytes where they name many others that a flow depends on. Each has a limit.
"""

from paceline.flowcore.model.slots import SlotClock
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import BadMessage

# A host reports once a slot and at events; every flow of a busy host beginning and ending in one slot stays below.
MESSAGES_PER_SLOT = 200

# Of one flow in one slot: to ask about it, to plan it up to three times (mlcc), to withdraw it.
TIMES_PER_FLOW = 5

BYTES_PER_SLOT = 4 * MAX_MESSAGE_BYTES


class FloodLimit:
    def __init__(self, slots: SlotClock, max_flows: int) -> None:
        """`max_flows`: that a host may have."""
        self._slots, self._max_flows = slots, max_flows
        self._slot = 0
        self._said: dict[str, tuple[int, int, int]] = {}  # by peer, in this slot: messages, flows, bytes

    def take(self, peer: str, now_ns: int, flows: int, size_bytes: int, hosts: int = 1) -> None:
        """One message more from this peer, who speaks for so many hosts. Raises BadMessage if it is one too many."""
        slot = self._slots.index(now_ns)
        if slot != self._slot:
            self._slot, self._said = slot, {}
        messages, named, heard_bytes = self._said.get(peer, (0, 0, 0))
        self._said[peer] = messages, named, heard_bytes = messages + 1, named + flows, heard_bytes + size_bytes
        for found, most, what in (
            (messages, MESSAGES_PER_SLOT, "messages"),
            (named, hosts * TIMES_PER_FLOW * self._max_flows, "flows"),
            (heard_bytes, hosts * BYTES_PER_SLOT, "bytes"),
        ):
            if found > most:
                raise BadMessage("flood", f"more than {most} {what} in a slot")
