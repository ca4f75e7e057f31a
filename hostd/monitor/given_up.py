"""Jobs that hostd cannot follow, because of a fault of its own.

What a job counts may be anything, and what is made of it is hostd's longest chain of reasoning. A fault in there costs
the job that it meets its turns, and nobody else anything: it is logged, the job leaves, and its processes are not
looked at again as long as one of them is there.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.messages.events import JobLeft
from paceline.flowcore.model.job_names import log_fields

_log = logging.getLogger(__name__)

WHY = "a fault in hostd, which its log has: the job is left to TCP until it ends"


class GivenUp:
    def __init__(self, jobs: dict[str, JobTracker]) -> None:
        """`jobs`: where such a job is taken out."""
        self._jobs = jobs
        self._names: set[str] = set()
        self._left: list[JobLeft] = []

    @contextmanager
    def on_a_fault(self, job: JobTracker) -> Iterator[None]:
        try:
            yield
        except Exception:
            name = job.demand.job
            _log.exception("job left to TCP, because of a fault in following it", extra=log_fields(name))
            self._jobs.pop(name, None)
            self._names.add(name)
            self._left.append(JobLeft(name))

    def left(self) -> list[JobLeft]:
        """Since it was last asked."""
        left, self._left = self._left, []
        return left

    def without(self, present: Mapping[str, Mapping[int, object]]) -> dict[str, str]:
        """Of the processes that are there, those of such jobs, and why they are not seen. A job that has ended may come
        again."""
        self._names &= present.keys()
        return {str(pid): WHY for name in self._names for pid in present[name]}

    def __contains__(self, name: str) -> bool:
        return name in self._names
