"""cassini with real daemons: two like jobs of plain sockets are held to times at which they do not meet."""

from pathlib import Path

import pytest

from bench.jobs.daemon_control import DaemonControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.run import Conditions, run_once
from paceline.flowcore.messages.events import FlowDone, FlowReady
from paceline.flowcore.messages.journal import decode
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.sim.run import iteration_times_s

pytestmark = [pytest.mark.root, pytest.mark.slow]

COMPUTE_S, BURST_S = 0.3, 0.16  # eight round trips or more, also on a busy machine
MET_S = (COMPUTE_S + 2 * BURST_S + COMPUTE_S + BURST_S) / 2  # jobs that often meet have longer iterations
JOBS = [
    JobSpec(name, Pattern.ALLREDUCE, ("h0", "h1"), (), 8.0, COMPUTE_S, None, 0.0, jitter=0.0) for name in ("a", "b")
]
PAIR = Scenario("pair", 1, 6.0, SlotsSpec(), star(2, 0.4), tuple(JOBS), ())


def held_s(journal: Path) -> list[float]:
    """For how long each burst was that the switch held: it may not even borrow."""
    since_ns: dict[FlowId, int] = {}
    found: list[float] = []
    for entry in map(decode, journal.read_text().splitlines()):
        for event in entry.events:
            if isinstance(event, FlowReady | FlowDone):
                since_ns.pop(event.flow, None)
            for grant in event.grants if isinstance(event, Feedback) else ():
                if not grant.share_bps and not grant.ceiling_bps:
                    since_ns.setdefault(grant.flow, entry.now_ns)
                elif grant.flow in since_ns:
                    found.append((entry.now_ns - since_ns.pop(grant.flow)) / 1e9)
    return found


def test_like_jobs_take_turns_at_their_times(tmp_path: Path) -> None:
    """Again where the machine stood still."""
    settled_s: list[float] = []
    held: list[float] = []
    with ForkServer(modules_for(PAIR, "synthetic"), fork_server_environment()) as fork_server:
        for _ in range(2):
            run = run_once(PAIR, DaemonControl("cassini", journals=tmp_path), Conditions("synthetic", 1), fork_server)
            settled_s = [time_s for job in run.jobs for time_s in iteration_times_s(job)[-4:]]
            held = held_s(tmp_path / "h0.jsonl")
            if held and sum(settled_s) / len(settled_s) < MET_S:
                break
    assert sum(settled_s) / len(settled_s) < MET_S, settled_s
    assert held and max(held) < 1.3 * (COMPUTE_S + BURST_S)
