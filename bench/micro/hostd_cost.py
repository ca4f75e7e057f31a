"""What hostd costs its host: CPU, memory, time per decision and slots without one, with many flows under way.

Two hosts, one ring job per flow. Jobs hardly compute, so that nearly every flow has bytes waiting nearly all the
time. The link is slow, so that the jobs themselves leave the machine alone: hostd's work depends on flows, slots and
iterations, not on bytes.

CPU is what the kernel booked on hostd and its guardian, as a share of one core, mean of the two hosts. Beside it, the
stalls of the machine itself (stalls.py): the daemon on a core that stands still misses its slot.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
LINK_GBPS = 0.2
MODEL_MB = 6.25  # a quarter of a second of the link
COMPUTE_S = 0.05
JOIN_S = 60.0  # a job joins after two iterations, and an iteration takes as long as the bursts of all jobs
SEED = 1


@dataclass(frozen=True, slots=True)
class Setup:
    flows: int = 10
    slot_ms: float = 60.0
    slots: int = 1000
    mode: str = "enforce"
    backend: str = "htb"

    def scenario(self) -> Scenario:
        jobs = tuple(
            JobSpec(f"job{number}", Pattern.ALLREDUCE, HOSTS, (), MODEL_MB, COMPUTE_S, None, 0.0, 0.0)
            for number in range(self.flows)
        )
        topology = star(len(HOSTS), LINK_GBPS)
        return Scenario("hostd", SEED, self.duration_s, SlotsSpec(self.slot_ms), topology, jobs, ())

    @property
    def duration_s(self) -> float:
        return self.slots * self.slot_ms / 1e3


Progress = Callable[[float, float], None]  # seconds done, seconds in all


def measure(setup: Setup, progress: Progress = lambda done_s, all_s: None) -> dict[str, object]:
    """Raises RunFailed."""
    with _everything(setup) as (group, daemons):
        group.go()
        # In observe mode no job joins; there a job is known once its sizes are.
        _listen(group, JOIN_S, lambda _: all(_known(status) == setup.flows for status in daemons.statuses()))
        if not all(_known(status) == setup.flows for status in daemons.statuses()):
            raise RunFailed(f"not all {setup.flows} jobs were known after {JOIN_S:g} s")
        ended = sum(len(process.numbers) for process in group.processes) / 2
        before, cpu_s, began_s = daemons.statuses(), _cpu_s(daemons), time.monotonic()
        with watching_stalls() as stalls:
            _listen(group, setup.duration_s, lambda done_s: progress(done_s, setup.duration_s))
        wall_s, after = time.monotonic() - began_s, daemons.statuses()
        iterations = sum(len(process.numbers) for process in group.processes) / 2 - ended
        spent = [100 * (now - then) / wall_s for now, then in zip(_cpu_s(daemons), cpu_s, strict=True)]
        resident = [_resident_mb(host.pid) for host in daemons.hosts]
    troubles: Counter[str] = Counter()
    for now, then in zip(after, before, strict=True):
        troubles += Counter(now["troubles"]) - Counter(then["troubles"])
    counts = {
        key: sum(now[key] - then[key] for now, then in zip(after, before, strict=True))
        for key in ("missed_slots", "decisions", "fail_opens")
    }
    return {
        "flows": setup.flows,
        "slot_ms": setup.slot_ms,
        "slots": round(wall_s * 1e3 / setup.slot_ms),
        "iterations_per_s": round(iterations / wall_s, 2),
        "mode": setup.mode,
        "backend": after[0]["backend"],
        "hostd_cpu_percent": round(fmean(spent), 2),
        "hostd_cpu_percent_by_host": [round(percent, 2) for percent in spent],
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
            ForkServer(modules_for(scenario, "synthetic"), fork_server_environment()) as fork_server,
            Testbed(scenario.topology) as testbed,
            ProcessGroup(fork_server, testbed, _processes(scenario, testbed, directory), directory) as group,
            control.running(testbed, scenario, directory) as daemons,
        ):
            group.await_ready()
            yield group, daemons
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _processes(scenario: Scenario, testbed: Testbed, directory: Path) -> list[ProcessSpec]:
    return process_specs(scenario, SEED, "synthetic", testbed.addresses, directory)


def _listen(group: ProcessGroup, duration_s: float, done: Callable[[float], object]) -> None:
    """Reads what the jobs print, so that their pipes do not fill, until the time is over or `done` says so."""
    began_s = time.monotonic()
    group.listen_until(lambda: bool(done(time.monotonic() - began_s)), time.monotonic_ns() + round(duration_s * 1e9))


def _known(status: dict[str, Any]) -> int:
    return sum(job["phase"] != "learning" for job in status["jobs"])


def _cpu_s(daemons: Daemons) -> list[float]:
    return [host.cpu_s() for host in daemons.hosts]


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
