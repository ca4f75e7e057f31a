"""What a link carried, by job, at one step of time: the newest `length` buckets and nothing older.

    bucket b holds what was seen from b·step to (b+1)·step        mean_j(b) = Σ of its samples / their count

Law: memory is bounded by length × MOST_JOBS numbers, however many jobs come and go. A bucket without a sample is a gap
(None), not an idle link: the daemon was away.
"""

from array import array
from collections.abc import Mapping

MOST_JOBS = 24  # of a link; those beyond are drawn as one
OTHERS = "other jobs"


class Ring:
    def __init__(self, length: int) -> None:
        self.length = length
        self.newest = -1  # bucket; -1: none yet
        self._count = array("L", bytes(array("L").itemsize * length))
        self._sums: dict[str, array[float]] = {}

    def add(self, bucket: int, rates_bps: Mapping[str, float]) -> None:
        """One sample; of a bucket that is too old, the clock was set back, and all that is here is of another time."""
        if bucket <= self.newest - self.length or bucket > self.newest + self.length:
            self._clear()
            self.newest = bucket
        for passed in range(self.newest + 1, bucket + 1):
            self._empty(passed % self.length)
        self.newest = max(self.newest, bucket)
        at = bucket % self.length
        self._count[at] += 1
        for job, bps in rates_bps.items():
            if bps > 0.0:
                self._row(job)[at] += bps

    def jobs(self) -> list[str]:
        return list(self._sums)

    def since(self, bucket: int) -> tuple[list[int], dict[str, list[int]]]:
        """The buckets after this one that have samples, and the mean rate of each job in each of them."""
        first = max(bucket + 1, self.newest - self.length + 1, 0)
        known = [one for one in range(first, self.newest + 1) if self._count[one % self.length]]
        means = {
            job: [round(row[one % self.length] / self._count[one % self.length]) for one in known]
            for job, row in self._sums.items()
        }
        return known, {job: row for job, row in means.items() if any(row)}

    def _row(self, job: str) -> "array[float]":
        if job not in self._sums:
            if len(self._sums) >= MOST_JOBS:
                self._forget_idle()
            if len(self._sums) >= MOST_JOBS:
                job = OTHERS
        return self._sums.setdefault(job, array("d", bytes(8 * self.length)))

    def _forget_idle(self) -> None:
        for job in [job for job, row in self._sums.items() if not any(row)]:
            del self._sums[job]

    def _empty(self, at: int) -> None:
        self._count[at] = 0
        for row in self._sums.values():
            row[at] = 0.0

    def _clear(self) -> None:
        self._sums.clear()
        for at in range(self.length):
            self._count[at] = 0
