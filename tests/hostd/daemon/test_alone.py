"""A job that nobody competes with is not touched: real daemons, and what hostd tells its switch meanwhile."""

from pathlib import Path

import pytest

from paceline.flowcore.messages.events import Limit, Send
from paceline.flowcore.messages.journal import decode
from paceline.flowcore.messages.reports import Report
from tests.hostd.cluster import Cluster, cluster, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

QUIET_S = 3.0


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def effects(self, kind: type) -> int:
        """How many so far."""
        lines = self._path.read_text().splitlines(keepends=True)
        entries = [decode(line) for line in lines if line.endswith("\n")]
        return sum(isinstance(effect, kind) for entry in entries for effect in entry.effects)

    def claims_of(self, job: str) -> int:
        lines = self._path.read_text().splitlines(keepends=True)
        sent = [effect for line in lines if line.endswith("\n") for effect in decode(line).effects]
        reports = [one.message for one in sent if isinstance(one, Send) and isinstance(one.message, Report)]
        return sum(claim.flow.job.endswith(f"/{job}") for report in reports for claim in report.claims)


def test_a_job_alone_says_nothing_until_another_comes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.switchd()
    daemons = [cluster.hostd(host, with_switch=True, journal=tmp_path / host) for host in ("h0", "h1")]
    for daemon in daemons:
        daemon.await_hostd(connected=True)
    group = cluster.jobs("a")
    cluster.run(group, lambda: all(joined(daemon) == {"a"} for daemon in daemons))
    journal = Journal(tmp_path / "h0")
    cluster.run(group, lambda: journal.claims_of("a"))
    cluster.pause(group, 2.0)

    began, iterations = (journal.claims_of("a"), journal.effects(Limit)), len(group.processes[0].numbers)
    cluster.pause(group, QUIET_S)
    assert len(group.processes[0].numbers) > iterations + 5
    # The switch may have forgotten it after a minute: it is reminded every nine seconds.
    assert journal.claims_of("a") - began[0] <= 1, "no claim for some twenty bursts"
    assert journal.effects(Limit) == began[1], "and nothing was set"

    both = cluster.jobs("b")
    cluster.run(both, lambda: all(joined(daemon) == {"a", "b"} for daemon in daemons))
    cluster.run(both, lambda: journal.claims_of("a") - began[0] > 20)
    cluster.run(both, lambda: journal.claims_of("b") > 20)
    assert all(daemon.status()["troubles"] == {} for daemon in daemons)
