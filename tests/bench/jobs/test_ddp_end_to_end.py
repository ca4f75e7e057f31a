"""Two real DDP jobs, seen by the shim, negotiated by hostd and switchd, held by HTB; and the journals say so again."""

from pathlib import Path

import pytest

from bench.jobs.daemon_control import DaemonControl
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.run import Conditions, run_once
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import FlowDone, FlowReady, IterationEnded, Limit
from paceline.flowcore.messages.journal import decode, replay
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.job_names import name_of
from paceline.flowcore.model.scenario import parse_scenario
from paceline.flowcore.policy import POLICIES

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.torch]

SCENARIO = """
version = 1
name = "two"
duration_s = 8.0
[topology]
kind = "star"
hosts = 2
link_gbps = 0.4
[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 4.0
compute_s = 0.15
[[job]]
name = "b"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 6.0
compute_s = 0.1
"""


def test_shim_to_rates_with_real_torch(tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO, "two.toml")
    with ForkServer(modules_for(scenario, "ddp"), fork_server_environment()) as fork_server:
        run = run_once(scenario, DaemonControl("paceline", journals=tmp_path), Conditions("ddp", 1), fork_server)
    assert all(len(job.iteration_ends_ns) > 5 for job in run.jobs)
    for host in scenario.topology.hosts:
        lines = (tmp_path / f"{host}.jsonl").read_text().splitlines()
        agent = HostAgent(host, scenario.topology, scenario.slots.clock(), POLICIES["paceline"](), "sw")
        assert list(replay(lines, {host: agent})) == []
        entries = [decode(line) for line in lines]
        assert {type(event) for entry in entries for event in entry.events} >= {
            FlowReady,
            FlowDone,
            IterationEnded,
            Feedback,
        }
        held = {name_of(effect.flow.job) for entry in entries for effect in entry.effects if isinstance(effect, Limit)}
        assert held == {"a", "b"}
