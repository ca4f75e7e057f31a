"""The array network's law: no flow forwards what has not arrived, however long the steps."""

import numpy as np
import pytest

from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.sim.array.engine import ArraySimulation
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.jobs import TrainingJob
from paceline.sim.kernel.steps import ROUNDING_BYTES

STEP_MS = 1.0
HOSTS = ("h0", "h1", "h2", "h3", "h4", "h5")


def ring(model_mb: float, iterations: int) -> JobSpec:
    return JobSpec("ring", Pattern.ALLREDUCE, HOSTS, (), model_mb, 0.05, iterations, 0.0, 0.2)


def furthest_ahead_bytes(network: ArrayNetwork, spec: JobSpec) -> float:
    """How far any flow is beyond what its upstream and its window allow."""
    sent = {flow: network.sent[number] for flow, number in network.numbers.items()}
    waiting = [flow for flow in flows_of(spec) if flow.upstream and flow.flow in sent]
    return max((sent[f.flow] - f.window_bytes - min(sent[p] for p in f.upstream) for f in waiting), default=0.0)


@pytest.mark.parametrize("model_mb", [6.7, 1.0, 60.0])
def test_a_ring_whose_chunks_are_shorter_than_a_step_stays_in_order_and_gets_through(model_mb: float) -> None:
    """With chunks of 0.9 ms and steps of 1 ms a late worker's ring once ran past it, and stood still for ever."""
    spec = ring(model_mb, iterations=40)
    simulation = ArraySimulation(star(6, 10.0), SlotsSpec().clock(), "fair", step_ms=STEP_MS)
    job = TrainingJob(spec, 1)
    simulation.start(job)
    worst_bytes = 0.0
    while not job.finished and simulation.now_ns < 20 * 10**9:
        simulation.run(simulation.now_ns + 5 * 10**6)
        worst_bytes = max(worst_bytes, furthest_ahead_bytes(simulation.network, spec))
    assert job.finished
    assert worst_bytes <= 2 * ROUNDING_BYTES


def test_flows_are_through_to_the_byte() -> None:
    spec = ring(6.7, iterations=3)
    simulation = ArraySimulation(star(6, 10.0), SlotsSpec().clock(), "fair", step_ms=STEP_MS)
    simulation.start(TrainingJob(spec, 1))
    simulation.run(10**12)
    carried = simulation.network.carried_bytes()
    total_bytes = 3 * sum(flow.size_bytes for flow in flows_of(spec))
    assert float(np.sum(carried)) == pytest.approx(2 * total_bytes)  # up from the host and down to the next
