"""What could not be enforced, and of which kind; counted and logged.

Law: the kind is set where the error arises. Its text names processes, sockets and devices, and hardly ever repeats; its
kind is one of a fixed few, the `reason` label of paceline_host_enforcement_errors. However many errors there are, log
and memory stay bounded.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from hostd.kernel.calls import Held, NotAnswered
from hostd.kernel.pidfd import SocketGone
from hostd.safety.undo_log import Revoked
from paceline.flowcore.model.job_names import flow_log_fields
from paceline.flowcore.model.patterns import FlowId
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)

MOST_REASONS, KEPT_REASONS = 100, 50
MOST_OF_JOBS = 1000
REASON_CHARS = 80


class ErrorKind(StrEnum):
    FOREIGN_QDISC = "foreign_qdisc"  # an operator or another program set the root qdisc
    RESTORE = "restore"  # a change could not be taken back
    HELD = "held"  # a call on the process's socket does not return
    LATE = "late"  # a call on the process's socket has not returned yet; it is made again, and no trouble
    GONE = "gone"  # the process ended or closed the socket
    NAMESPACE = "namespace"  # the process is in another network namespace
    EVADED = "evaded"  # the process took a socket out of its class
    DEVICE = "device"  # no device has the socket's address
    PERMISSION = "permission"
    LEASE = "lease"  # undo log or guardian
    KERNEL = "kernel"  # any other refusal
    OTHER = "other"


class CannotEnforce(Exception):
    """A backend cannot work on this host or device; str() says why and what to change."""

    def __init__(self, reason: str, kind: ErrorKind = ErrorKind.OTHER) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class EnforcementError:
    """Returned and not raised: for a counter and the log."""

    kind: ErrorKind
    reason: str
    flow: FlowId | None = None

    @classmethod
    def of(cls, error: Exception, context: str = "") -> "EnforcementError":
        return cls(kind_of(error), f"{context}: {error}" if context else str(error))


def about(flow: FlowId, errors: Iterable[EnforcementError]) -> list[EnforcementError]:
    """The same, known to concern this flow."""
    return [replace(error, flow=flow) for error in errors]


def not_restored(problems: Mapping[str, str], context: str = "") -> list[EnforcementError]:
    """From what an undo log could not take back, by key."""
    return [EnforcementError(ErrorKind.RESTORE, f"{context}{key}: {why}") for key, why in problems.items()]


def kind_of(error: Exception) -> ErrorKind:
    match error:
        case CannotEnforce():
            return error.kind
        case SocketGone():
            return ErrorKind.GONE
        case Held():
            return ErrorKind.HELD
        case NotAnswered():
            return ErrorKind.LATE
        case Revoked():
            return ErrorKind.LEASE
        case PermissionError():
            return ErrorKind.PERMISSION
        case OSError():
            return ErrorKind.KERNEL
        case _:
            return ErrorKind.OTHER


class Span(NamedTuple):
    """When something happened first and last, in seconds of the wall clock, and the last time by the other one."""

    first_s: float
    last_s: float
    own_s: float


class ErrorCounts:
    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        """The wall clock, which people read, may be set: what is lately so is told by the other."""
        self.by_kind: Counter[ErrorKind] = Counter()
        self.by_reason: Counter[str] = Counter()  # the most frequent of them
        self.spans: dict[str, Span] = {}  # by reason
        self._of_jobs: dict[tuple[str, ErrorKind], tuple[float, str]] = {}  # when it was last so, and why
        self._clock_s = clock_s
        self._log_limit = LogRateLimit()

    def add(self, errors: Iterable[EnforcementError]) -> None:
        for error in errors:
            self.by_kind[error.kind] += 1
            if error.kind is ErrorKind.LATE:
                continue
            self._note(error, error.reason[:REASON_CHARS], time.time())
            names = flow_log_fields(error.flow) if error.flow else {}
            self._log_limit.log(_log, logging.WARNING, error.reason, "not enforced: %s", error.reason, extra=names)

    def lately(self, job: str, within_s: float) -> dict[ErrorKind, str]:
        """What could not be enforced for this job in the last seconds: an error that lasts comes again every second."""
        since_s = self._clock_s() - within_s
        return {kind: why for (name, kind), (at_s, why) in self._of_jobs.items() if name == job and at_s >= since_s}

    def age_s(self, span: Span) -> float:
        """Since it was last there."""
        return max(0.0, self._clock_s() - span.own_s)

    def _note(self, error: EnforcementError, reason: str, now_s: float) -> None:
        self.by_reason[reason] += 1
        first_s = self.spans[reason].first_s if reason in self.spans else now_s
        self.spans[reason] = Span(first_s, now_s, self._clock_s())
        if len(self.by_reason) > MOST_REASONS:
            self.by_reason = Counter(dict(self.by_reason.most_common(KEPT_REASONS)))
            self.spans = {kept: self.spans[kept] for kept in self.by_reason}
        if error.flow is not None:
            self._of_jobs[error.flow.job, error.kind] = self._clock_s(), error.reason
            if len(self._of_jobs) > MOST_OF_JOBS:
                self._of_jobs = dict(sorted(self._of_jobs.items(), key=lambda item: item[1][0])[MOST_OF_JOBS // 2 :])
