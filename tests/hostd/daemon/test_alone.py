"""A job that nobody competes with is not touched: real daemons, and what hostd tells its switch meanwhile."""

from pathlib import Path

import pytest

from bench.jobs.process_group import ProcessGroup
from paceline.flowcore.messages.events import Effect, Limit, Send
from paceline.flowcore.messages.journal import Entry, decode
from paceline.flowcore.messages.reports import Feedback, Report
from tests.hostd.cluster import Cluster, cluster, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

QUIET_S = 3.0
ENDS_S = 60.0
SILENT_S = 20.0  # a job whose end nobody tells is remembered for a minute
SOON_S = 4.0  # its switch says at once that it has met somebody; by itself it would ask after nine seconds


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def _entries(self) -> list[Entry]:
        """So far; the last line may not be whole yet."""
        lines = self._path.read_text().splitlines(keepends=True)
        return [decode(line) for line in lines if line.endswith("\n")]

    def _effects(self) -> list[Effect]:
        return [effect for entry in self._entries() for effect in entry.effects]

    def was_told(self, job: str) -> bool:
        """That somebody competes with it."""
        heard = [event for entry in self._entries() for event in entry.events if isinstance(event, Feedback)]
        return any(flow.job.endswith(f"/{job}") for answer in heard for flow in answer.contended)

    def limits(self) -> int:
        return sum(isinstance(effect, Limit) for effect in self._effects())

    def claims_of(self, job: str) -> int:
        sent = [effect.message for effect in self._effects() if isinstance(effect, Send)]
        claims = [claim for report in sent if isinstance(report, Report) for claim in report.claims]
        return sum(claim.flow.job.endswith(f"/{job}") for claim in claims)


def falls_silent(cluster: Cluster, group: ProcessGroup, journal: Journal) -> None:
    """No claim for some twenty bursts, and nothing is set. A machine that stands still may lose a switch meanwhile."""

    def is_silent() -> bool:
        began, iterations = (journal.claims_of("a"), journal.limits()), len(group.processes[0].numbers)
        cluster.pause(group, QUIET_S)
        assert len(group.processes[0].numbers) > iterations + 5
        # The switch may have forgotten it after a minute: it is reminded every nine seconds.
        return journal.claims_of("a") - began[0] <= 1 and journal.limits() == began[1]

    cluster.run(group, is_silent, limit_s=SILENT_S)


def test_a_job_alone_says_nothing_but_while_another_is_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.switchd()
    daemons = [cluster.hostd(host, with_switch=True, journal=tmp_path / host) for host in ("h0", "h1")]
    for daemon in daemons:
        daemon.await_hostd(connected=True)
    group = cluster.jobs("a")
    cluster.run(group, lambda: all(joined(daemon) == {"a"} for daemon in daemons))
    journal = Journal(tmp_path / "h0")
    cluster.run(group, lambda: journal.claims_of("a"))
    falls_silent(cluster, group, journal)

    both = cluster.jobs("b", iterations=100)
    cluster.run(both, lambda: all(joined(daemon) == {"a", "b"} for daemon in daemons))
    cluster.run(both, lambda: journal.claims_of("b"))
    before = journal.claims_of("a")
    cluster.run(both, lambda: journal.was_told("a"), limit_s=SOON_S)
    cluster.run(both, lambda: journal.claims_of("a") > before + 3, limit_s=SOON_S)
    cluster.run(both, lambda: journal.claims_of("b") > 20)
    cluster.run(both, lambda: all(joined(daemon) == {"a"} for daemon in daemons), limit_s=ENDS_S)
    falls_silent(cluster, group, journal)
    assert [daemon.status()["troubles"] for daemon in daemons] == [{}, {}]
