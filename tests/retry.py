"""Retry after a stall: a test that failed while the machine stood still runs once more, and the summary names it.

Tests of daemons wait for milliseconds on real clocks. On a virtual machine whose cores now and then stop for a tenth of
a second, a failure in that moment says nothing about the code; a failure at any other time does, and counts at once. So
do all failures after MOST_RETRIES: then the code is to blame. Benchmarks have the same rule for their runs
(bench/jobs/cases.py).
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from _pytest.runner import runtestprotocol

from bench.stalls import Stalls, watching_stalls

LONG_STALL_S = 0.05
BEFORE_S = 3.0  # a test fails within so long after the stall that upset it
MOST_RETRIES = 3


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    test: str
    stalled_ms: float
    message: str


class RetryAfterStall:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._watch = ExitStack()
        self._stalls: Stalls | None = None
        self.failed_attempts: list[FailedAttempt] = []

    def pytest_sessionstart(self) -> None:
        self._stalls = self._watch.enter_context(watching_stalls())

    def pytest_sessionfinish(self) -> None:
        self._watch.close()

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began_s = time.perf_counter()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        since_s = max(began_s, time.perf_counter() - BEFORE_S)
        stalled_s = self._longest_stall_s(since_s) if failed and len(self.failed_attempts) < MOST_RETRIES else 0.0
        if stalled_s >= LONG_STALL_S:
            message = "\n".join(map(_last_line, failed))
            self.failed_attempts.append(FailedAttempt(item.nodeid, 1e3 * stalled_s, message))
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _longest_stall_s(self, since_s: float) -> float:
        """Of the machine, by sleepers with real-time priority. They report when they end, so new ones take over."""
        self._watch.close()
        found, self._stalls = self._stalls, self._watch.enter_context(watching_stalls())
        if found is None or not found.reliable:
            return 0.0
        return max((end_s - max(begin_s, since_s) for begin_s, end_s in found.spans_s if end_s > since_s), default=0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.failed_attempts:
            terminalreporter.section("retried after a stall")
        for one in self.failed_attempts:
            terminalreporter.line(f"{one.test}: the machine stood still for {one.stalled_ms:.0f} ms; it failed with")
            terminalreporter.line(f"    {one.message}")


def _last_line(report: pytest.TestReport) -> str:
    lines = report.longreprtext.strip().splitlines()
    return next((line for line in lines if line.startswith("E ")), lines[-1] if lines else report.when or "")
