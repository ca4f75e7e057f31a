"""The recording of a link against the jobs that were recorded: real sockets over an emulated network."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.link_recorder import OTHERS, RecordedControl
from bench.jobs.run import Conditions, run_once
from bench.jobs.tcp_control import TcpControl
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from paceline.flowcore.model.scenario import parse_scenario
from paceline.sim.recording import Recording

pytestmark = [pytest.mark.root, pytest.mark.slow]

SIZE_BYTES, COMPUTE_S = 8e6, 0.3
SCENARIO = """
version = 1
name = "recorded"
[topology]
kind = "star"
hosts = 2
link_gbps = 0.5
[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 8.0
compute_s = 0.3
iterations = 4
[[job]]
name = "b"
pattern = "ps"
workers = ["h0"]
servers = ["h1"]
model_mb = 8.0
compute_s = 0.3
iterations = 4
start_s = 0.8
"""


def recorded_bytes(recording: Recording, job: str, until_s: float = float("inf")) -> float:
    """The jobs' own bytes, without headers."""
    sent = 0.0
    for (since_ns, end_ns), rates in zip(pairwise(recording.times_ns), recording.rates_bps, strict=False):
        if end_ns <= until_s * 1e9:
            sent += sum(rate for flow, rate in rates.items() if flow.job == job) * (end_ns - since_ns) / 8e9
    return sent / WIRE_PER_PAYLOAD


@pytest.mark.parametrize("others", [False, True], ids=["jobs", "and others"])
def test_what_is_recorded_is_what_the_jobs_sent(others: bool) -> None:
    scenario = parse_scenario(SCENARIO, "recorded.toml")
    if others:
        scenario = replace(scenario, jobs=scenario.jobs[:1])
    control = RecordedControl(TcpControl("cubic"), "h0", others)
    with ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server:
        run = run_once(scenario, control, Conditions("synthetic", 1), fork_server)
    recording = control.recording
    for job in run.jobs:

        def sent_by(end_s: float, name: str = job.spec.name) -> float:
            """With half the computing to spare between two bursts."""
            return recorded_bytes(recording, name, until_s=end_s + COMPUTE_S / 2)

        assert sent_by(job.spec.start_s) == 0
        for number, end_ns in enumerate(job.iteration_ends_ns[:-1], start=1):
            assert sent_by(end_ns / 1e9) == pytest.approx(SIZE_BYTES * number, rel=0.03)
    if others:  # no other flow was there: acknowledgements, and bytes under way between two readings
        assert recorded_bytes(recording, OTHERS) < 0.2 * recorded_bytes(recording, "a")
