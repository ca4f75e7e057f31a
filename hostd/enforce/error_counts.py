"""Errors of enforcement, counted and logged. Law: however many there are, memory and log stay bounded."""

import logging
from collections import Counter
from collections.abc import Iterable

from hostd.enforce.errors import EnforcementError, ErrorKind
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)

MOST_REASONS, KEPT_REASONS = 100, 50
REASON_CHARS = 80


class ErrorCounts:
    def __init__(self) -> None:
        self.by_kind: Counter[ErrorKind] = Counter()
        self.by_reason: Counter[str] = Counter()  # the most frequent of them
        self._log_limit = LogRateLimit()

    def add(self, errors: Iterable[EnforcementError]) -> None:
        for error in errors:
            self.by_kind[error.kind] += 1
            self.by_reason[error.reason[:REASON_CHARS]] += 1
            if len(self.by_reason) > MOST_REASONS:
                self.by_reason = Counter(dict(self.by_reason.most_common(KEPT_REASONS)))
            names = {"job": error.flow.job, "flow": str(error.flow)} if error.flow else {}
            self._log_limit.log(_log, logging.WARNING, error.reason, "not enforced: %s", error.reason, extra=names)
