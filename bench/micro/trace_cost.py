"""What a simulated second of a cluster costs, by the size of the cluster.

The work of the array engine is per flow that sends, and per step and reallocation for all flows together. So with A
the mean number of flows that send, the cost of a simulated second should grow no faster than A:

    µs per flow and simulated second  =  CPU seconds ÷ simulated seconds ÷ A        must not rise with the cluster

CPU seconds, which a busy machine changes less than those on the wall.

Measured after all jobs have arrived, each size in a process of its own, so that the memory is that of this size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time

from paceline.memory import peak_memory_mb
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.run import TraceOptions, TraceRun
from paceline.sim.trace.sampled import SampledEngine
from paceline.sim.trace.workload import build_topology, read_jobs

JOBS_PER_SERVER = 1.3


@dataclass(frozen=True, slots=True)
class Setup:
    workload: Path
    placement: str
    policy: str
    step_ms: float
    arrived_s: float  # when measuring begins
    simulated_s: float  # how long measuring goes on


@dataclass(frozen=True, slots=True)
class Cost:
    servers: int
    jobs_running: int
    jobs_on_several_servers: int
    flows: int
    flows_sending: float  # A
    wall_s_per_simulated_s: float
    cpu_s_per_simulated_s: float
    us_per_flow_and_simulated_s: float
    peak_memory_mb: float


def measure(setup: Setup, sizes: Sequence[int]) -> Iterator[Cost]:
    for servers in sizes:
        with get_context("spawn").Pool(1) as pool:
            yield pool.apply(measure_one, (setup, servers))


def measure_one(setup: Setup, servers: int) -> Cost:
    trace = read_jobs(setup.workload, "generated", PROFILES, 1, most=round(JOBS_PER_SERVER * servers))
    options = TraceOptions(
        servers=servers,
        placement=setup.placement,
        policy=setup.policy,
        step_ms=setup.step_ms,
        sample_s=inf,
        until_s=setup.arrived_s + setup.simulated_s,
    )
    run = TraceRun(build_topology("section-vii", servers), options)
    assert isinstance(run.engine, SampledEngine)
    array = run.engine.array
    engine, began = run.engine, list[tuple[float, float, int, int]]()
    array.at(round(setup.arrived_s * 1e9), lambda: began.append(_now(engine)))
    run.run(trace.items)
    wall_s, cpu_s, steps, flow_steps = (now - then for now, then in zip(_now(engine), began[0], strict=True))
    cost_s, sending = cpu_s / setup.simulated_s, flow_steps / max(steps, 1)
    return Cost(
        servers=servers,
        jobs_running=len(run.cluster.placed),
        jobs_on_several_servers=len(array.jobs),
        flows=len(array.network.numbers),
        flows_sending=round(sending, 1),
        wall_s_per_simulated_s=round(wall_s / setup.simulated_s, 4),
        cpu_s_per_simulated_s=round(cost_s, 4),
        us_per_flow_and_simulated_s=round(1e6 * cost_s / max(sending, 1.0), 1),
        peak_memory_mb=peak_memory_mb(),
    )


def _now(engine: SampledEngine) -> tuple[float, float, int, int]:
    return perf_counter(), process_time(), engine.array.steps, engine.array.flow_steps


def document(setup: Setup, costs: Sequence[Cost]) -> dict[str, object]:
    described = asdict(setup) | {"workload": setup.workload.name}
    return {"setup": described, "sizes": [asdict(cost) for cost in costs]}
