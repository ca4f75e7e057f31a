"""What hostd costs its host: CPU, memory, time per decision and slots without one, with many flows under way.

Two hosts, one ring job per flow.

    sockets   jobs of plain sockets that hardly compute: nearly every flow has bytes waiting nearly all the time
    real      training jobs of ten kinds (torch over gloo): several bursts an iteration, overlap, pauses

The link is slow, so that the jobs themselves leave the machine alone: hostd's work depends on flows, slots, bursts and
iterations, not on bytes.

CPU is what the kernel booked on hostd, its guardian, its registrar and its workers, as a share of one core, mean of the
two hosts; and of each of them.
Beside it, the stalls of the machine itself (stalls.py): the daemon on a core that stands still misses its slot.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from bench.jobs.daemon_control import DaemonControl, Daemons
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import ProcessSpec, fork_server_environment, modules_for, process_specs
from bench.jobs.process_group import ProcessGroup, RunFailed
from bench.stalls import Stalls, watching_stalls
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

HOSTS = ("h0", "h1")
SOCKETS, REAL = JOBS = ("sockets", "real")
LINK_GBPS = {SOCKETS: 0.2, REAL: 1.0}
MODEL_MB = 6.25  # a quarter of a second of the link
COMPUTE_S = 0.05
# Workload, MB and seconds of computing: as in `paceline bench real-jobs`.
REAL_JOBS = (
    ("fsdp", 40.0, 0.45),
    ("tensor", 16.0, 0.2),
    ("ddp", 25.0, 0.25),
    ("overlap", 35.0, 0.5),
    ("all-to-all", 16.0, 0.25),
    ("pipeline", 24.0, 0.3),
    ("accumulate", 40.0, 0.45),
    ("long-tail", 30.0, 0.3),
    ("local-sgd", 60.0, 0.8),
    ("tensor-accumulate", 24.0, 0.3),
)
JOIN_S = 60.0  # a job joins after two iterations, and an iteration takes as long as the bursts of all jobs
WARM_UP_S = 25.0  # of real jobs: some of them hostd leaves to TCP, or learns late
SEED = 1


@dataclass(frozen=True, slots=True)
class Setup:
    flows: int = 10
    slot_ms: float = 60.0
    slots: int = 1000
    mode: str = "enforce"
    backend: str = "htb"
    jobs: str = SOCKETS

    def scenario(self) -> Scenario:
        jobs = tuple(
            JobSpec(f"job{number}", Pattern.ALLREDUCE, HOSTS, (), model_mb, compute_s, None, 0.0, 0.0)
            for number, (_, model_mb, compute_s) in enumerate(self._played())
        )
        topology = star(len(HOSTS), LINK_GBPS[self.jobs])
        return Scenario("hostd", SEED, self.duration_s, SlotsSpec(self.slot_ms), topology, jobs, ())

    @property
    def workload(self) -> str:
        return ",".join(f"job{number}={workload}" for number, (workload, _, _) in enumerate(self._played()))

    def _played(self) -> Iterator[tuple[str, float, float]]:
        kinds = REAL_JOBS if self.jobs == REAL else (("synthetic", MODEL_MB, COMPUTE_S),)
        return islice(cycle(kinds), self.flows)

    @property
    def duration_s(self) -> float:
        return self.slots * self.slot_ms / 1e3


Progress = Callable[[float, float], None]  # seconds done, seconds in all


def measure(setup: Setup, progress: Progress = lambda done_s, all_s: None) -> dict[str, object]:
    """Raises RunFailed."""
    with _everything(setup) as (group, daemons):
        group.go()
        _await_jobs(setup, group, daemons)
        ended = sum(len(process.numbers) for process in group.processes) / 2
        before, cpu_s, began_s = daemons.statuses(), _cpu_s(daemons), time.monotonic()
        with watching_stalls() as stalls:
            _listen(group, setup.duration_s, lambda done_s: progress(done_s, setup.duration_s))
        wall_s, after = time.monotonic() - began_s, daemons.statuses()
        iterations = sum(len(process.numbers) for process in group.processes) / 2 - ended
        spent = [_percent(now, then, wall_s) for now, then in zip(_cpu_s(daemons), cpu_s, strict=True)]
        resident = [_resident_mb(host.pid) for host in daemons.hosts]
    troubles: Counter[str] = Counter()
    for now, then in zip(after, before, strict=True):
        troubles += Counter(now["troubles"]) - Counter(then["troubles"])
    counts = {
        key: sum(now[key] - then[key] for now, then in zip(after, before, strict=True))
        for key in ("missed_slots", "decisions", "fail_opens")
    }
    return {
        "jobs": setup.jobs,
        "flows": setup.flows,
        "jobs_known": min(map(_known, after)),
        "slot_ms": setup.slot_ms,
        "slots": round(wall_s * 1e3 / setup.slot_ms),
        "iterations_per_s": round(iterations / wall_s, 2),
        "mode": setup.mode,
        "backend": after[0]["backend"],
        "hostd_cpu_percent": round(fmean(sum(parts.values()) for parts in spent), 2),
        "hostd_cpu_percent_by_host": [round(sum(parts.values()), 2) for parts in spent],
        "hostd_cpu_percent_by_part": {
            part: round(fmean(parts.get(part, 0.0) for parts in spent), 2) for part in sorted(set().union(*spent))
        },
        **counts,
        "decision_ms": {
            part: round(max(status["decision_ms"][part] for status in after), 3) for part in ("p50", "p90", "p99")
        },
        **_of_the_machine(stalls, setup.slot_ms / 1e3),
        "resident_mb": round(max(resident), 1),  # with the guardian
        "troubles": dict(troubles),
    }


@contextmanager
def _everything(setup: Setup) -> Iterator[tuple[ProcessGroup, Daemons]]:
    scenario, directory = setup.scenario(), new_directory()
    control = DaemonControl("paceline", setup.backend, setup.mode)
    try:
        for host in HOSTS:
            (directory / host).mkdir()
        with (
            ForkServer(modules_for(scenario, setup.workload), fork_server_environment()) as fork_server,
            Testbed(scenario.topology) as testbed,
            control.running(testbed, scenario, directory) as daemons,
            ProcessGroup(fork_server, testbed, _processes(setup, scenario, testbed, directory), directory) as group,
        ):
            group.await_ready()
            yield group, daemons
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _processes(setup: Setup, scenario: Scenario, testbed: Testbed, directory: Path) -> list[ProcessSpec]:
    return process_specs(scenario, SEED, setup.workload, testbed.addresses, directory, registered=True)


def _listen(group: ProcessGroup, duration_s: float, done: Callable[[float], object]) -> None:
    """Reads what the jobs print, so that their pipes do not fill, until the time is over or `done` says so."""
    began_s = time.monotonic()
    group.listen_until(lambda: bool(done(time.monotonic() - began_s)), time.monotonic_ns() + round(duration_s * 1e9))


def _await_jobs(setup: Setup, group: ProcessGroup, daemons: Daemons) -> None:
    """Raises RunFailed."""

    def all_known(_: float = 0.0) -> bool:
        # In observe mode no job joins; there a job is known once its sizes are.
        return all(_known(status) == setup.flows for status in daemons.statuses())

    _listen(group, WARM_UP_S if setup.jobs == REAL else JOIN_S, all_known)
    if setup.jobs != REAL and not all_known():
        raise RunFailed(f"not all {setup.flows} jobs were known after {JOIN_S:g} s")


def _known(status: dict[str, Any]) -> int:
    return sum(job["phase"] != "learning" for job in status["jobs"])


def _cpu_s(daemons: Daemons) -> list[dict[str, float]]:
    return [host.cpu_s_by_part() for host in daemons.hosts]


def _percent(now_s: dict[str, float], then_s: dict[str, float], wall_s: float) -> dict[str, float]:
    """Of a core. What has ended in between is left out."""
    return {part: 100 * max(0.0, spent_s - then_s.get(part, 0.0)) / wall_s for part, spent_s in now_s.items()}


def _of_the_machine(stalls: Stalls, slot_s: float) -> dict[str, float | None]:
    """None: the machine's stalls cannot be told from the load of hostd and the jobs."""
    found = {
        "machine_stalls": len(stalls.spans_s),
        "machine_stalls_of_a_slot": sum(end_s - begin_s >= slot_s for begin_s, end_s in stalls.spans_s),
        "machine_stalled_percent": round(stalls.percent, 2),
    }
    return {key: value if stalls.reliable else None for key, value in found.items()}


def _resident_mb(pid: int) -> float:
    own = psutil.Process(pid)
    return float(sum(one.memory_info().rss for one in (own, *own.children(recursive=True))) / 1e6)
