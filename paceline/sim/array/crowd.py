"""Renewed bids of a crowd: what many host parts bid at once, in arrays.

A policy's bid is arithmetic on a job's progress, so the same function bids for one job and for arrays of them. Where it
is not (`fifo` makes a float of a time), each host part bids by itself.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.host.flow_phase import Phase, all_stalled
from paceline.flowcore.host.policy import JobState, Policy
from paceline.flowcore.host.progress import JobProgress, ManyProgress, credit_many
from paceline.sim.array.claims import ArrayFlow, Claims, Counters

LONGEST_NS = 2**40  # a delay, to make one number of a ToR and a delay

Heard = Callable[[str, int], Counters | None]  # the newest counters known of a ToR, by the delay to the arbiter


def bids_for_many(policy: Policy) -> bool:
    """Whether the policy's bid takes arrays; tried on two jobs."""
    one, two = JobProgress(0, 2.0, 8), np.ones(2)
    one.compute_ns, one.alone_comm_ns = 3e8, 2e8
    fields = one.slowdown, one.compute_ns, one.alone_comm_ns, one.weight, one.iterations
    many: Any = ManyProgress(*[two * value for value in fields])
    both: Any = 0.5 * two, np.array([7, 7]), False, 3.5 * two
    try:
        found, expected = policy.bid(JobState(many, *both)), policy.bid(JobState(one, 0.5, 7, False, 3.5))
        return all(np.array_equal(np.broadcast_to(a, 2), two * b) for a, b in zip(found, expected, strict=True))
    except (TypeError, ValueError, AttributeError):
        return False


class CrowdBids:
    def __init__(self, claims: Claims, policy: Policy) -> None:
        self._claims, self._policy = claims, policy

    def read(self, rows: Ints, newest_ns: int, heard: Heard, unclaimed: Iterable[ArrayFlow]) -> bool:
        """Bring the bids of these flows up to date; whether there was a newer one. `unclaimed`: live flows without a
        claim, some of which may have stalled."""
        flows, parts = self._claims.columns, self._claims.part_columns
        claim = np.zeros(len(parts.pace), np.bool_)
        claim[flows.part[rows]] = True
        old = np.flatnonzero(claim & (parts.bid_ns < newest_ns))
        places, place = np.unique(parts.tor[old] * LONGEST_NS + parts.delay_ns[old], return_inverse=True)
        known = [heard(self._claims.tors[key // LONGEST_NS], key % LONGEST_NS) for key in places.tolist()]
        taken_ns = np.array([-1 if counters is None else counters.taken_ns for counters in known], np.int64)[place]
        fresh = taken_ns > parts.bid_ns[old]
        for counters in {counters.taken_ns: counters for counters in known if counters is not None}.values():
            chosen = old[fresh & (taken_ns == counters.taken_ns)]
            if len(chosen):
                self._bid(rows, chosen, counters, unclaimed)
        return bool(fresh.any())

    def _bid(self, rows: Ints, chosen: Ints, counters: Counters, unclaimed: Iterable[ArrayFlow]) -> None:
        """HostPart.bid of the chosen parts for their flows among these rows, as of these counters."""
        flows, parts, now_ns = self._claims.columns, self._claims.part_columns, counters.taken_ns
        sent, goal = np.asarray(counters.sent), np.asarray(counters.goal)
        sent_bytes = self._sums(sent, len(parts.pace))[chosen]
        left_bytes = self._sums(np.maximum(goal - sent, 0.0), len(parts.pace))[chosen]
        size_bytes, fresh_bytes = parts.size_bytes[chosen], sent_bytes - parts.counted_bytes[chosen]
        counts = fresh_bytes >= 0.0  # else these are older counters than those already counted
        counted = chosen[counts]
        stalled = np.isin(counted, self._stalled(unclaimed))
        parts.pace[counted], parts.updated_ns[counted] = credit_many(
            parts.paces(counted), now_ns, fresh_bytes[counts], size_bytes[counts], stalled
        )
        parts.counted_bytes[counted] = sent_bytes[counts]
        parts.bid_ns[chosen] = now_ns
        place = np.full(len(parts.pace), -1)
        place[chosen] = np.arange(len(chosen))
        rows = rows[place[flows.part[rows]] >= 0]
        of = flows.part[rows]
        columns = parts.compute_ns, parts.alone_comm_ns, parts.weight, parts.iterations
        many: Any = ManyProgress(1.0 / parts.pace[of], *[column[of] for column in columns])
        left: Any = (left_bytes / size_bytes)[place[of]]
        ready_ns: Any = flows.ready_ns[rows]
        done: Any = parts.counted_bytes[of] / parts.size_bytes[of]
        bid = self._policy.bid(JobState(many, left, ready_ns, sent_iterations=done))
        flows.urgency[rows], flows.compute_ns[rows], flows.remaining_ns[rows] = bid

    def _sums(self, by_row: Floats, parts: int) -> Floats:
        """By part, of all its flows."""
        part = self._claims.columns.part
        rows = np.flatnonzero(part[: len(by_row)] >= 0)
        return np.bincount(part[rows], by_row[rows], parts).astype(np.float64, copy=False)

    def _stalled(self, unclaimed: Iterable[ArrayFlow]) -> list[int]:
        """The rows of parts that hold themselves up."""
        some = {flow.part for flow in unclaimed if flow.phase is Phase.STALLED}
        return [part.row for part in some if all_stalled([flow.phase for flow in part.flows])]
