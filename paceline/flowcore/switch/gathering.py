"""When a switch divides its links because flows came or left: at once, or a little later for several of them together.

Dividing takes time in proportion to the claims, 10 to 30 µs each, and beside many flows some flow always comes or
leaves. So divisions for such news are apart by

    gap = 0                                       up to FEW_CLAIMS
          min(NS_PER_CLAIM · claims, t̂ / 4)       beyond

The first flow that comes after a gap is answered at once; those that follow within it are answered together at its end.
None waits longer than a quarter of a slot, and it sends meanwhile: a flow needs no share to begin.
"""

FEW_CLAIMS = 32
NS_PER_CLAIM = 100_000
GAPS_PER_SLOT = 4


class Gathering:
    def __init__(self, slot_ns: int, few_claims: int = FEW_CLAIMS, ns_per_claim: int = NS_PER_CLAIM) -> None:
        self._longest_ns = slot_ns // GAPS_PER_SLOT
        self._few_claims, self._ns_per_claim = few_claims, ns_per_claim
        self._divided_ns: int | None = None

    def divided(self, now_ns: int) -> None:
        self._divided_ns = now_ns

    def due_ns(self, claims: int, now_ns: int) -> int:
        """When to divide for news of now, among so many claims."""
        if self._divided_ns is None or claims <= self._few_claims:
            return now_ns
        gap_ns = min(self._ns_per_claim * claims, self._longest_ns)
        return min(max(now_ns, self._divided_ns + gap_ns), now_ns + gap_ns)  # also if the clock was set back
