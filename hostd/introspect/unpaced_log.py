"""Jobs that are not paced, in the log: a line when a job's reasons become others, and one when none is left.

What passes by itself (a job that is learned) is said when it has lasted PATIENCE_NS; what an operator has to mend, at
once and as a warning.
"""

import logging
import time

from hostd.introspect.host_view import HostView
from hostd.introspect.why_unpaced import EXPECTED, Reason, Unpaced, why_unpaced
from paceline.flowcore.model.job_names import log_fields
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)

PATIENCE_NS = 30_000_000_000
MOST_NS = 10_000_000  # a user may have hundreds of jobs with hundreds of sockets each


class UnpacedLog:
    def __init__(self) -> None:
        self._found: dict[str, list[Unpaced]] = {}  # of every job, longest ago first
        self._said: dict[str, frozenset[Reason]] = {}
        self._log_limit = LogRateLimit()

    def note(self, view: HostView) -> dict[str, list[Unpaced]]:
        """About once a second; returns the reasons of every job."""
        found = self._looked_at(view)
        for gone in self._said.keys() - found.keys():
            del self._said[gone]
        for name, unpaced in found.items():
            if not (unpaced and all(one.reason in EXPECTED for one in unpaced) and self._is_young(view, name)):
                self._say(name, unpaced)
        return found

    def _looked_at(self, view: HostView) -> dict[str, list[Unpaced]]:
        """Where jobs have more sockets than there is time for, some are as they were a few seconds ago."""
        before = {name: whys for name, whys in self._found.items() if name in view.jobs}
        until_ns = time.thread_time_ns() + MOST_NS
        for name in [*(name for name in view.jobs if name not in before), *before]:
            before.pop(name, None)
            before[name] = why_unpaced(view, view.jobs[name])
            if time.thread_time_ns() >= until_ns:
                break
        self._found = before
        return before

    def _is_young(self, view: HostView, name: str) -> bool:
        return view.own_ns - view.jobs[name].seen_ns < PATIENCE_NS

    def _say(self, name: str, unpaced: list[Unpaced]) -> None:
        reasons = frozenset(one.reason for one in unpaced)
        if reasons == self._said.get(name, frozenset()):
            return
        self._said[name] = reasons
        level = logging.INFO if reasons <= EXPECTED else logging.WARNING
        extra = {**log_fields(name), "reasons": sorted(reasons)}
        key = (name, reasons)
        if reasons:
            whys = "; ".join(one.why for one in unpaced)
            self._log_limit.log(_log, level, key, "job not paced, or not all of it: %s", whys, extra=extra)
        else:
            self._log_limit.log(_log, level, key, "nothing keeps the job from being paced any more", extra=extra)
