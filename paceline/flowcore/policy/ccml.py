"""ccml: hosts interleave the jobs they have, from profiles of their iterations; a baseline of MLCC §VII.

With v_j the time a job communicates and c_j the time it computes, jobs on one NIC fit behind each other if
Σ_j v_j/(c_j+v_j) ≤ 1. Then the one that began first keeps the NIC until it is through: those it delays slide behind
it, and after a few iterations no two jobs meet. Jobs that do not fit share equally, since putting one first would
only take from another.

It runs on the host alone: it knows neither the links beyond the NIC nor what the job's other hosts decide.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from paceline.flowcore.allocation.arbiters import Contender, max_min_shares, strict_priority
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated


def interleave(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
    needed = sum(_share_of_time(contender.bid) for contender in contenders)
    return (strict_priority if needed <= 1.0 else max_min_shares)(contenders, capacity_bps)


def _share_of_time(bid: Bid) -> float:
    """a_j; the bid carries the whole exchange, not what remains of it: this is the profile."""
    whole_ns = bid.compute_ns + bid.remaining_ns
    return bid.remaining_ns / whole_ns if whole_ns > 0.0 else 1.0


class Ccml(Arbitrated):
    name = "ccml"
    arbiter = staticmethod(interleave)
    simulated: ClassVar[bool] = True
    host_only: ClassVar[bool] = True

    def bid(self, state: JobState) -> Bid:
        progress = state.progress
        return Bid(-float(state.ready_ns), progress.compute_ns, progress.alone_comm_ns)
