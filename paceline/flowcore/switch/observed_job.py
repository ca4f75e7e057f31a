"""What a switch has seen of a job itself, and so how far it believes the job's bid.

A bid is what a host says. The switch knows when a job claims links, when it withdraws, and which part y of its best
rate the job is given meanwhile, and no host's word is in that:

    v   link time of a burst, ∫ y dt over one claim; known after two. The shortest of the last few counts: bursts of an
        iteration differ, one that others lend to needs less, and with its daemon down a job may keep one claim for two
    c   time from one claim's end to the next one
    P   mean pace (detect/pace.py): y while the job claims, 1 while it does not

Hosts see more: bytes that a grant did not move, and every slot on the other switches of a path. So a bid is believed
up to a margin, and no further:

    urgency ≤ 1.025·√ω / P     compute ≤ 1.1·c        remaining ≥ 0.95·(v − what it was given of this burst)

A job could make a short burst now and then to be believed of a long one; what it gains then the ledger bounds. ω is the
job's weight, which hostd and the switch hold to what the operator allows. The margins are what honest mixes lose
nothing by (`paceline sim mixes`), and what keeps lies near 5 % (`sim lies`).
"""

from paceline.flowcore.detect.pace import learned, mean_pace
from paceline.flowcore.messages.reports import Bid

URGENCY_MARGIN, COMPUTE_MARGIN, REMAINING_MARGIN = 1.025, 1.1, 0.95

FEW = 4  # bursts

# Of a job whose first burst has not ended: how fast its pace moves, and the most that its computing counts.
UNKNOWN_ALONE_S = 0.2


class ObservedJob:
    __slots__ = ("_burst_s", "_bursts_s", "_compute_s", "_given_s", "_left_ns", "_pace")

    def __init__(self) -> None:
        self._bursts_s: tuple[float, ...] = ()  # the last ones ...
        self._burst_s = 0.0  # ... and their mean; 0: not known
        self._compute_s = 0.0  # c
        self._given_s = 0.0  # of this burst
        self._left_ns: int | None = None
        self._pace = 1.0  # P

    def came(self, now_ns: int, soon_ns: float = 0.0) -> None:
        """It claims links again; if it comes so soon, and has not computed, with the rest of its burst: it had foreseen
        another end."""
        if self._left_ns is None:
            return
        gone_s = (now_ns - self._left_ns) / 1e9
        if gone_s < min(soon_ns / 1e9, self._compute_s / 2):
            self._given_s, self._bursts_s = self._bursts_s[-1], self._bursts_s[:-1]
        else:
            self._compute_s = learned(self._compute_s, gone_s)

    def left(self, now_ns: int) -> None:
        """It is through with a burst."""
        burst_s, self._given_s, self._left_ns = self._given_s, 0.0, now_ns
        self._bursts_s = (*self._bursts_s[-FEW + 1 :], burst_s)
        if len(self._bursts_s) > 1:
            self._burst_s = learned(self._burst_s or min(self._bursts_s), burst_s)

    def advance(self, elapsed_s: float, given: float | None, weight: float = 1.0) -> None:
        """So much time has passed, in which it was given this part of its best rate; None: it claimed nothing."""
        pace = 1.0 if given is None else min(1.0, given)
        self._given_s += (given or 0.0) * elapsed_s
        alone_s = self._burst_s + self._compute_s if self._burst_s else UNKNOWN_ALONE_S
        self._pace = mean_pace(self._pace, pace, elapsed_s, alone_s, weight)

    def believed(self, bid: Bid, weight: float = 1.0) -> Bid:
        compute_s = COMPUTE_MARGIN * self._compute_s or UNKNOWN_ALONE_S
        burst_s = min(self._bursts_s) if len(self._bursts_s) > 1 else 0.0
        remaining_s = REMAINING_MARGIN * (burst_s - self._given_s)
        return Bid(
            min(bid.urgency, weight**0.5 * URGENCY_MARGIN / self._pace),
            min(bid.compute_ns, compute_s * 1e9),
            max(bid.remaining_ns, remaining_s * 1e9),
        )
