"""Jobs that arrive on a shared cluster, with real daemons: each waits for its GPUs, and others send beside them."""

from dataclasses import replace

import pytest

from bench.experiments.paper_jobs import cluster, queued_job
from bench.jobs.control_names import control_named
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.queued_run import gpu_load, run_queued
from bench.jobs.run import Conditions
from bench.jobs.shared_cluster import SharedCluster

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOSTS, ITERATIONS = 4, 4


def test_the_second_job_starts_when_the_first_has_left() -> None:
    """Four hosts with a GPU each: three are the first job's, and the second needs two."""
    small = {"model_mb": 1.0, "compute_s": 0.1, "iterations": ITERATIONS}
    jobs = [replace(queued_job("ring", "GPT2"), **small), replace(queued_job("server", "VGG16", start_s=0.2), **small)]
    scenario = cluster("queue", 25.0, jobs, hosts=HOSTS, duration_s=60.0)
    with ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server:
        shared = SharedCluster(gpus_per_host=1, others_every_s=0.3, others_last_s=(0.1, 0.2))
        conditions = Conditions("synthetic", 1, shared=shared)
        run = run_queued(scenario, control_named("paceline"), conditions, shared, fork_server)
    ring, server = run.jobs
    assert ring.finished and server.finished
    assert run.starts_ns["ring"] < ring.iteration_ends_ns[0]
    assert ring.iteration_ends_ns[-1] <= run.starts_ns["server"] < server.iteration_ends_ns[0]
    assert len(run.cross_traffic_bytes) == HOSTS and all(size > 0 for size in run.cross_traffic_bytes)
    assert 0.0 <= gpu_load(run, gpus=HOSTS) <= 1.0
