"""The picture of a link against the jobs that were filmed: real sockets over an emulated network."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.jobs_control import TcpControl
from bench.jobs_launch import modules_for, nursery_environment
from bench.jobs_nursery import Nursery
from bench.jobs_run import Conditions, run_once
from bench.link_picture import OTHERS, Pictured
from flowcore.scenario import parse_scenario
from hostd.watched_job import WIRE_PER_PAYLOAD
from sim.engine import Recording

SIZE_BYTES, COMPUTE_S = 8e6, 0.3
SCENARIO = """
version = 1
name = "filmed"
duration_s = 2.5
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
[[job]]
name = "b"
pattern = "ps"
workers = ["h0"]
servers = ["h1"]
model_mb = 8.0
compute_s = 0.3
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
    scenario = parse_scenario(SCENARIO, "filmed.toml")
    if others:
        scenario = replace(scenario, jobs=scenario.jobs[:1], duration_s=1.5)
    pictured = Pictured(TcpControl("cubic"), "h0", others)
    with Nursery(modules_for(scenario, "synthetic"), nursery_environment()) as nursery:
        run = run_once(scenario, pictured, Conditions("synthetic", 1), nursery)
    recording = pictured.recording
    for job in run.jobs:
        iterations = len(job.iteration_ends_ns)
        assert iterations >= 2
        sent = recorded_bytes(recording, job.spec.name)
        # The last iteration may have been under way.
        assert 0.97 * SIZE_BYTES * iterations < sent < 1.03 * SIZE_BYTES * (iterations + 1)
        # Half the computing away from the bursts: none before the first, and the first as a whole.
        start_s, first_end_s = job.spec.start_s, job.iteration_ends_ns[0] / 1e9
        assert recorded_bytes(recording, job.spec.name, until_s=start_s + COMPUTE_S / 2) == 0
        first_burst = recorded_bytes(recording, job.spec.name, until_s=first_end_s + COMPUTE_S / 2)
        assert first_burst == pytest.approx(SIZE_BYTES, rel=0.03)
    if others:  # nobody else was there: headers of acknowledgements, at most
        assert recorded_bytes(recording, OTHERS) < 0.05 * recorded_bytes(recording, "a")
