"""The last stretch of a run in several processes.

When the last job has arrived and no job ends before the run does, jobs that share no link, directly or through other
jobs, know nothing of each other. Each process then goes on with some of these components alone, and the run is what the
processes say together. What came before, every process simulates for itself: no state is handed over.

Should a job end after all, its GPUs would be free for jobs of every process: `JobEnded`, and the run is done in one.
Steps of one process do not end where a flow of another does, so single iterations differ by fractions of a step from
those of a run in one process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from paceline.flowcore.allocation.arbiters import connected
from paceline.flowcore.allocation.borrowing import Floats
from paceline.flowcore.model.topology import Topology
from paceline.sim.array.engine import ArraySimulation
from paceline.sim.policy_names import parts as parts_of
from paceline.sim.processes import beside
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.profiles import Profiles
from paceline.sim.trace.run import Progress, TraceOptions, TraceRun
from paceline.sim.trace.sampled import JobEnded, SampledEngine


@dataclass(frozen=True, slots=True)
class PartResult:
    """What the other processes add to a run."""

    iterations: dict[str, int]  # of the jobs of this part
    carried_bytes: Floats  # since the run was divided
    decisions_ns: list[int]
    flow_steps: int


@dataclass(frozen=True, slots=True)
class Work:
    topology: Topology
    options: TraceOptions
    profiles: Profiles
    jobs: Sequence[TraceJob]
    parts: int
    part: int = 0


def divisible(options: TraceOptions, *, preempts: bool) -> bool:
    """Whether such a run has a stretch in which components know nothing of each other."""
    alone = options.jobs_per_gpu == 1 and parts_of(options.policy)[1] is None and not preempts
    return options.engine == "array" and alone and options.sample_s == inf and options.until_s < inf


def run_in_processes(work: Work, progress: Progress | None = None) -> TraceRun:
    with beside(run_part, [replace(work, part=part) for part in range(1, work.parts)]) as others:
        run = _new(work)
        try:
            run.run(work.jobs, progress, _divides(run, work))
            found = others()
        except JobEnded:
            found = [None]
    known = [part for part in found if part is not None]
    if len(known) < len(found):
        run = _new(work)
        run.run(work.jobs, progress)
        return run
    engine = run.engine
    assert isinstance(engine, SampledEngine)
    for part in known:
        engine.take_in(part.iterations, part.carried_bytes, part.decisions_ns, part.flow_steps)
    return run


def run_part(work: Work) -> PartResult | None:
    """None: the run cannot be divided, because a job ended."""
    run = _new(work)
    try:
        run.run(work.jobs, None, _divides(run, work))
    except JobEnded:
        return None
    engine = run.engine
    assert isinstance(engine, SampledEngine)
    array, before = engine.array, engine.divided
    if before is None:
        return None
    return PartResult(
        {name: engine.iterations[name] for name in array.jobs},
        array.network.carried_bytes() - before.carried_bytes,
        list(array.control.decisions_ns[before.decisions :]),
        array.flow_steps - before.flow_steps,
    )


def _new(work: Work) -> TraceRun:
    return TraceRun(work.topology, work.options, work.profiles)


def _divides(run: TraceRun, work: Work) -> Callable[[], None]:
    def divide() -> None:
        engine = run.engine
        assert isinstance(engine, SampledEngine)
        engine.divide(jobs_of_part(engine.array, work.part, work.parts))

    return divide


def components(array: ArraySimulation) -> list[set[str]]:
    """The jobs of each component, which will take the most time first."""
    network = array.network
    links_of = {
        name: {str(link) for link in network.path[job.numbers].ravel().tolist() if link < network.beyond}
        for name, job in array.jobs.items()
    }
    on_link: dict[str, list[str]] = {}
    for name, links in links_of.items():
        for link in links:
            on_link.setdefault(link, []).append(name)
    return sorted(connected(links_of, on_link), key=lambda names: (-_work(array, names), min(names)))


def _work(array: ArraySimulation, names: set[str]) -> int:
    """About as much as the iterations they have begun so far took."""
    return sum((1 + len(array.jobs[name].training.iteration_ends_ns)) * len(array.jobs[name].numbers) for name in names)


def jobs_of_part(array: ArraySimulation, part: int, parts: int) -> set[str]:
    """Each component goes to the part that has least so far."""
    loads, chosen = [0] * parts, set[str]()
    for names in components(array):
        least = loads.index(min(loads))
        loads[least] += _work(array, names)
        if least == part:
            chosen |= names
    return chosen
