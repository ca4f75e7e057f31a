"""How fast a job has been going lately, compared with having the cluster to itself.

A job makes progress in *alone seconds*: computing for a second is one, sending the share q of an iteration's bytes
is q·v, with v the time the whole exchange takes alone. Its pace p(t) is alone seconds per second, in [0, 1]. The
slowdown people see, elapsed time ÷ iterations × T⁰, is 1 ÷ the mean pace, so we keep that mean:

    P(t) = (1/τ) ∫ e^{−(t−u)/τ} p(u) du           ŝ(t) = 1 / P(t) ≥ 1            T⁰ = c + v,  τ = 10·T⁰

The memory τ trades two errors: a short one forgets that a job was favoured an iteration ago and lets it collide
again with the same job; a long one still favours a job for old delays after it has long been running well (and
starts slowly: it takes τ to notice). From 5 to 12 iterations makes little difference.

Here is also what a policy multiplies its value by, the job's weight; orders that value nothing (fifo, srpt) ignore it.
"""

from typing import NamedTuple

import numpy as np

from paceline.flowcore.allocation.borrowing import Bools, Floats, Ints
from paceline.flowcore.detect.pace import learned, mean_pace, mean_paces


class JobProgress:
    """The pace of one job as one host sees it. Times are nanoseconds of the caller's clock."""

    __slots__ = (
        "_bursts",
        "_pace",
        "_started_ns",
        "_updated_ns",
        "alone_comm_ns",
        "bursts",
        "communicating",
        "compute_ns",
        "iterations",
        "weight",
    )

    def __init__(self, now_ns: int, weight: float = 1.0, iterations: int = 0) -> None:
        self.weight = weight  # ω (model/weights.py)
        self.iterations = iterations  # that the job will do; 0: nobody knows
        self.compute_ns = 0.0  # c before each burst, learned
        self.bursts = 1  # of the last iteration
        self._bursts = 0  # ... of this one so far
        self.alone_comm_ns = 0.0  # v, told by the switch
        self.communicating = False
        self._started_ns = self._updated_ns = now_ns
        self._pace = 1.0  # P: as if alone, until measured

    @property
    def iteration_compute_ns(self) -> float:
        """Of all bursts."""
        return self.bursts * self.compute_ns

    @property
    def alone_ns(self) -> float:
        """T⁰"""
        return self.iteration_compute_ns + self.alone_comm_ns

    @property
    def slowdown(self) -> float:
        """ŝ, as of the last call of `advance`."""
        return 1.0 / self._pace

    def advance(self, now_ns: int, sent_share: float) -> None:
        """Time has passed; since the last call this host sent `sent_share` of the iteration's bytes."""
        elapsed_ns = now_ns - self._updated_ns
        if elapsed_ns <= 0 or (alone_ns := self.alone_ns) <= 0.0:
            return
        self._updated_ns = now_ns
        pace = sent_share * self.alone_comm_ns / elapsed_ns if self.communicating else 1.0
        if pace > 1.0:
            pace = 1.0
        self._pace = mean_pace(self._pace, pace, elapsed_ns, alone_ns, self.weight)

    def credit(self, now_ns: int, fresh_bytes: float, size_bytes: float, *, stalled: bool) -> None:
        """This host sent so many bytes since the last call, of an iteration of `size_bytes`. A job that holds itself up
        (`stalled`) is not slowed down by the network."""
        if stalled and not fresh_bytes:
            self.skip(now_ns)
        else:
            self.advance(now_ns, fresh_bytes / size_bytes)

    def skip(self, now_ns: int) -> None:
        """Time has passed that says nothing about the network."""
        self._updated_ns = now_ns

    def tell_alone(self, alone_comm_ns: float) -> None:
        """A switch knows how long the exchange takes alone; never no time at all."""
        self.alone_comm_ns = max(float(alone_comm_ns), 1.0)

    def clock_set(self, by_ns: int) -> None:
        """The caller's clock was set forward by so much; what is dated by it moves along."""
        self._started_ns += by_ns
        self._updated_ns += by_ns

    def compute_ended(self, now_ns: int) -> None:
        """The first bytes of a burst are waiting."""
        if self.communicating:
            return
        self._bursts += 1
        self.advance(now_ns, 0.0)
        self.compute_ns = learned(self.compute_ns, float(now_ns - self._started_ns))
        self.communicating = True

    def iteration_ended(self, now_ns: int, sent_share: float) -> None:
        self.advance(now_ns, sent_share)
        self.computes_again(now_ns)
        self.bursts, self._bursts = max(1, self._bursts), 0

    def computes_again(self, now_ns: int) -> None:
        """A burst is over. Its last bytes have been counted."""
        self.communicating = False
        self._started_ns = now_ns


class PaceColumns(NamedTuple):
    """The fields of many `JobProgress`."""

    pace: Floats
    updated_ns: Ints
    bursts: Ints
    compute_ns: Floats
    alone_comm_ns: Floats
    communicating: Bools
    weight: Floats


class ManyProgress(NamedTuple):
    """The progress of many jobs, as a bid reads that of one (policy.JobState)."""

    slowdown: Floats
    compute_ns: Floats
    alone_comm_ns: Floats
    weight: Floats
    iterations: Floats

    @property
    def iteration_compute_ns(self) -> Floats:
        """Where there are arrays, an iteration has one burst."""
        return self.compute_ns

    @property
    def alone_ns(self) -> Floats:
        """T⁰"""
        return self.compute_ns + self.alone_comm_ns


def credit_many(
    jobs: PaceColumns, now_ns: int, fresh_bytes: Floats, size_bytes: Floats, stalled: Bools
) -> tuple[Floats, Ints]:
    """`JobProgress.credit` of many jobs: P of each, and when it was last advanced."""
    still = stalled & (fresh_bytes == 0.0)
    alone_ns = jobs.bursts * jobs.compute_ns + jobs.alone_comm_ns
    moves = ~still & (now_ns > jobs.updated_ns) & (alone_ns > 0.0)
    elapsed_ns = now_ns - jobs.updated_ns[moves]
    pace = np.minimum(fresh_bytes[moves] / size_bytes[moves] * jobs.alone_comm_ns[moves] / elapsed_ns, 1.0)
    pace = np.where(jobs.communicating[moves], pace, 1.0)
    mean = jobs.pace.copy()
    mean[moves] = mean_paces(mean[moves], pace, elapsed_ns, alone_ns[moves], jobs.weight[moves])
    return mean, np.where(moves | still, now_ns, jobs.updated_ns)
