"""What cross traffic sends over a host's own link, and how much load it counts as.

    load  =  the mean over the last LOOKS looks of  min(what others send, what is theirs beside flows that want it)

What is theirs is link · n / (n + max(1, W)) for n connections of others, 1 where nobody has counted them, and flows
that count for W (allocation/own_link.py). They have more than that only for as long as no flow wants it. Were that
counted, a flow that plans by what is left would plan nothing on a link that others fill while jobs compute, and they
would fill it for ever.
"""

from collections import deque

from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S, transfer_bytes

LOOKS = 4  # slots: TCP's own ups and downs are shorter


class OthersLoad:
    def __init__(self) -> None:
        self._looks: deque[tuple[int, float, float]] = deque(maxlen=LOOKS)  # how long, bytes sent, bytes that count

    def note(self, took_ns: int, others_bps: float, theirs_bps: float) -> None:
        """One look."""
        counts_bps = min(others_bps, theirs_bps)
        self._looks.append((took_ns, transfer_bytes(others_bps, took_ns), transfer_bytes(counts_bps, took_ns)))

    @property
    def sent_bps(self) -> float:
        """What they send, whoever else wants the link."""
        return self._mean_bps(sum(sent_bytes for _, sent_bytes, _ in self._looks))

    @property
    def load_bps(self) -> float:
        return self._mean_bps(sum(counts_bytes for _, _, counts_bytes in self._looks))

    def _mean_bps(self, volume_bytes: float) -> float:
        took_ns = sum(look_ns for look_ns, _, _ in self._looks)
        return volume_bytes * BITS_PER_BYTE * NS_PER_S / took_ns if took_ns else 0.0
