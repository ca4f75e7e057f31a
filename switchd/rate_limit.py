"""The rate limit of a peer: how much it may send in a slot over all its streams and calls; beyond that it is refused.

All peers share one thread, so every message delays the messages of other peers. A message has a fixed cost, a cost for
each flow in it, and a cost for its bytes, where they name many flows that a flow depends on. Each of the three has a
limit.
"""

from paceline.flowcore.model.slots import SlotClock
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import BadMessage

# A host reports once a slot and at events; every flow of a busy host beginning and ending in one slot stays below.
MESSAGES_PER_SLOT = 200

# Of one flow in one slot: to ask about it, to plan it up to three times (mlcc), to withdraw it.
TIMES_PER_FLOW = 5

BYTES_PER_SLOT = 4 * MAX_MESSAGE_BYTES


class PeerRateLimit:
    def __init__(self, slots: SlotClock, max_flows: int) -> None:
        """`max_flows`: how many flows a host may have."""
        self._slots, self._max_flows = slots, max_flows
        self._slot = 0
        self._received: dict[str, tuple[int, int, int]] = {}  # by peer, in this slot: messages, flows, bytes

    def count(self, peer: str, now_ns: int, flows: int, size_bytes: int, hosts: int = 1) -> None:
        """Counts a message of the peer, which speaks for so many hosts; raises BadMessage above a limit."""
        hosts = max(1, hosts)  # a switch without hosts relays, and answers
        slot = self._slots.index(now_ns)
        if slot != self._slot:
            self._slot, self._received = slot, {}
        messages, named, total_bytes = self._received.get(peer, (0, 0, 0))
        self._received[peer] = messages, named, total_bytes = messages + 1, named + flows, total_bytes + size_bytes
        for found, limit, what in (
            (messages, MESSAGES_PER_SLOT, "messages"),
            (named, hosts * TIMES_PER_FLOW * self._max_flows, "flows"),
            (total_bytes, hosts * BYTES_PER_SLOT, "bytes"),
        ):
            if found > limit:
                raise BadMessage("flood", f"more than {limit} {what} in a slot")
