"""Jobs that come and go, in the log: a line each, with job and flow.

A job whose sizes change joins again and again: it is logged once in a while, like all that a job can cause.
"""

import logging
from collections.abc import Callable, Iterable

from paceline.flowcore.messages.events import HostEvent, JobJoined, JobLeft
from paceline.flowcore.model.job_names import flow_log_fields, log_fields
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)


class JobLog:
    def __init__(self) -> None:
        self._log_limit = LogRateLimit()

    def note(self, events: Iterable[HostEvent], paced: Callable[[str], bool]) -> None:
        for event in events:
            match event:
                case JobJoined(job, specs):
                    what = "joined" if paced(job) else "seen, and only watched"
                    size_mb = sum(spec.size_bytes for spec in specs) / 1e6
                    flows = [flow_log_fields(spec.flow)["flow"] for spec in specs]
                    fields = {**log_fields(job), "flow": flows, "size_mb": round(size_mb, 3)}
                    self._log_limit.log(_log, logging.INFO, (job, what), "job %s", what, extra=fields)
                case JobLeft(job):
                    self._log_limit.log(_log, logging.INFO, (job, "left"), "job left", extra=log_fields(job))
