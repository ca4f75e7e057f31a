"""Many runs over traces: policies × placements × cluster sizes × seeds × loads, on this machine's cores or on Ray.

Law: a finished run is never lost and never done twice. Every row carries what it is a run of and is on disk before
the next is counted; running a sweep again does what is missing. A line that was cut off by an interruption is no row.
"""

import json
import os
import signal
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from paceline.cluster.collectives import COLLECTIVES
from paceline.cluster.schedulers import NAMES, ORDERS
from paceline.flowcore.model.fields import (
    Field,
    InputError,
    Reader,
    Value,
    integer,
    list_of,
    number_from,
    one_of,
    printable_name,
    read_table,
)
from paceline.sim.policy_names import POLICY_NAMES
from paceline.sim.trace import results
from paceline.sim.trace.profiles import PROFILES
from paceline.sim.trace.results import Row
from paceline.sim.trace.run import ENGINES, OLD_ENGINES, TraceOptions, TraceRun
from paceline.sim.trace.workload import FORMATS, build_topology, read_jobs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TraceFile:
    file: str
    format: str
    jobs: int | None
    speedup: float  # arrivals come so many times faster


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run, and its identity."""

    trace: TraceFile
    policy: str
    seed: int
    load: float  # arrivals come so many times faster, on top of the trace's own speedup
    servers: int
    gpus_per_server: int
    placement: str
    order: str
    jobs_per_gpu: int
    topology: str
    engine: str
    collective: str
    jitter: float
    sample_s: float
    step_ms: float
    longest_iterations: int | None  # of a job; weeks of trace in an hour of simulation


def read_sweep(path: Path, seeds: tuple[int, ...] = ()) -> tuple[SweepRun, ...]:
    """Every run of a sweep, in a fixed order. Trace files are named relative to the sweep's."""
    try:
        root = Value(str(path), "", tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise InputError(str(path), "the file", f"no TOML ({error})", "a sweep in TOML") from None
    top = read_table(root, _FIELDS)
    traces = [replace(trace, file=str(path.parent / trace.file)) for trace in top["trace"]]
    common = {key: top[key] for key in _COMMON}
    return tuple(
        SweepRun(trace=trace, policy=policy, placement=placement, servers=servers, seed=seed, load=load, **common)
        for trace in traces
        for load in top["loads"]
        for seed in seeds or top["seeds"]
        for servers in top["servers"]
        for placement in top["placement"]
        for policy in top["policies"]
    )


def _trace(value: Value) -> TraceFile:
    fields = {
        "file": Field(printable_name),
        "format": Field(one_of(*FORMATS)),
        "jobs": Field(integer(1, 10**9), None),
        "speedup": Field(number_from(1e-6, 1e9), 1.0),
    }
    return TraceFile(**read_table(value, fields))


def _one_or_more(reader: Reader[T], what: str) -> Reader[tuple[T, ...]]:
    """A value, or a list of different ones."""
    several = list_of(reader, what, distinct=True)
    return lambda value: several(value) if isinstance(value.found, list) else (reader(value),)


def _engine(value: Value) -> str:
    return OLD_ENGINES.get(str(value.found)) or one_of(*ENGINES)(value)


_COMMON = {
    "gpus_per_server": Field(integer(1, 1024), 8),
    "engine": Field(_engine, "array"),
    "collective": Field(one_of(*COLLECTIVES), "ring"),
    "order": Field(one_of(*ORDERS), "arrival"),
    "jobs_per_gpu": Field(integer(1, 64), 1),
    "topology": Field(printable_name, "section-vii"),
    "jitter": Field(number_from(0.0, 0.99), 0.03),
    "sample_s": Field(number_from(0.0, 1e9), 20.0),
    "step_ms": Field(number_from(0.01, 1000.0), 5.0),
    "longest_iterations": Field(integer(1, 10**9), None),
}
_FIELDS = _COMMON | {
    "servers": Field(_one_or_more(integer(1, 100_000), "numbers of servers")),
    "placement": Field(_one_or_more(one_of(*NAMES), "placements"), ("random",)),
    "policies": Field(list_of(one_of(*POLICY_NAMES), "policies", distinct=True)),
    "seeds": Field(list_of(integer(0, 2**63 - 1), "seeds", distinct=True), (1,)),
    "loads": Field(list_of(number_from(1e-3, 1e3), "loads", distinct=True), (1.0,)),
    "trace": Field(list_of(_trace, "[[trace]] tables")),
}


def perform(run: SweepRun) -> Row:
    """One run, start to end; the row says which."""
    started_s = perf_counter()
    trace = read_jobs(Path(run.trace.file), run.trace.format, PROFILES, run.seed, most=run.trace.jobs)
    faster = run.load * run.trace.speedup
    jobs = [
        replace(
            job,
            arrival_s=job.arrival_s / faster,
            iterations=min(job.iterations, run.longest_iterations or job.iterations),
        )
        for job in trace.items
    ]
    options = TraceOptions.of(run, backfill=run.order != "arrival")
    simulated = TraceRun(build_topology(run.topology, run.servers), options)
    simulated.run(jobs)
    simulated.refused += trace.refused
    return {"run": identity(run)} | results.row(simulated, perf_counter() - started_s)


def identity(run: SweepRun) -> Row:
    """What tells this run from every other run; the folder of its trace does not matter."""
    return asdict(replace(run, trace=replace(run.trace, file=Path(run.trace.file).name)))


# ---- Results on disk ----


def read_rows(path: Path) -> list[Row]:
    """The rows of a results file; an engine that was renamed since has its present name."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            rows.append(_renamed(json.loads(line)))
        except ValueError:
            continue  # empty, or cut off
    return rows


def _renamed(row: Any) -> Any:
    """A line may be any JSON: the file need not be a sweep's."""
    run = row.get("run") if isinstance(row, dict) else None
    engine = OLD_ENGINES.get(str(run.get("engine"))) if isinstance(run, dict) else None
    if engine:
        row["engine"] = row["run"]["engine"] = engine
    return row


def missing(runs: Iterable[SweepRun], rows: Iterable[Row]) -> list[SweepRun]:
    done = [row.get("run") for row in rows]
    return [run for run in runs if identity(run) not in done]


def append(path: Path, row: Row) -> None:
    """On disk when this returns; a line that was cut off before is ended first."""
    with path.open("a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


# ---- Engines ----


def local(runs: list[SweepRun], processes: int) -> Iterator[Row]:
    """Rows as they come, from processes of this machine."""
    if min(processes, len(runs)) <= 1:
        yield from map(perform, runs)
        return
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with get_context("spawn").Pool(min(processes, len(runs)), initializer=ignore) as pool:
        yield from pool.imap_unordered(perform, runs)


def on_ray(runs: list[SweepRun]) -> Iterator[Row]:
    """Rows as they come, from a Ray cluster: that which RAY_ADDRESS names, or else this machine."""
    import ray

    started = not ray.is_initialized()
    if started:
        ray.init(configure_logging=False, log_to_driver=False, include_dashboard=False)
    try:
        task = ray.remote(perform)
        waiting = [task.remote(run) for run in runs]
        while waiting:
            ready, waiting = ray.wait(waiting)
            yield from ray.get(ready)
    finally:
        if started:
            ray.shutdown()
