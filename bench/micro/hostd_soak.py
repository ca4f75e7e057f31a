"""Jobs come and go under hostd, and hostd must not grow: its descriptors, memory and threads after every round.

A round: three jobs start, join, are paced for a while and are killed in the middle of an iteration; hostd is measured
when it has let all of them go. The first rounds fill caches and free lists; growth is counted after them.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from bench.jobs.daemon_control import DaemonControl, Daemons
from bench.jobs.daemons import DaemonProcess
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for, process_specs
from bench.jobs.process_group import ProcessGroup, RunFailed
from bench.micro.hostd_cost import HOSTS, SEED, Progress, Setup
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.flowcore.model.scenario import Scenario

WARM_UP_ROUNDS = 2
JOBS = 3
PACED_S = 1.5
LIMIT_S = 30.0  # for jobs to join, and to be let go


@dataclass(frozen=True, slots=True)
class Sample:
    descriptors: int
    resident_mb: float
    threads: int
    guardian_mb: float


def soak(duration_s: float, progress: Progress = lambda done_s, all_s: None) -> dict[str, object]:
    """Raises RunFailed."""
    base, directory = Setup(flows=JOBS).scenario(), new_directory()
    samples: list[Sample] = []
    try:
        for host in HOSTS:
            (directory / host).mkdir()
        with (
            ForkServer(modules_for(base, "synthetic"), fork_server_environment()) as fork_server,
            Testbed(base.topology) as testbed,
            DaemonControl("paceline").running(testbed, base, directory) as daemons,
        ):
            began_s = time.monotonic()
            while (passed_s := time.monotonic() - began_s) < duration_s or len(samples) < WARM_UP_ROUNDS + 2:
                progress(passed_s, duration_s)
                _round(_scenario(base, len(samples)), fork_server, testbed, daemons, directory)
                samples.append(_sample(daemons.hosts[0]))
            status = daemons.hosts[0].status()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return _report(samples, time.monotonic() - began_s, status)


def _scenario(base: Scenario, number: int) -> Scenario:
    """The jobs of a round, small ones, under new names."""
    jobs = tuple(replace(job, name=f"round{number}-{job.name}", model_mb=0.5) for job in base.jobs)
    return replace(base, jobs=jobs)


def _round(scenario: Scenario, fork_server: ForkServer, testbed: Testbed, daemons: Daemons, directory: Path) -> None:
    specs = process_specs(scenario, SEED, "synthetic", testbed.addresses, directory)
    with ProcessGroup(fork_server, testbed, specs, directory) as group:
        group.await_ready()
        group.go()
        _follow(group, LIMIT_S, lambda: _all_controlled(daemons))
        if not _all_controlled(daemons):
            raise RunFailed(f"not all {JOBS} jobs were controlled after {LIMIT_S:g} s")
        _follow(group, PACED_S, lambda: False)
    end_s = time.monotonic() + LIMIT_S
    while any(status["jobs"] for status in daemons.statuses()):
        if time.monotonic() > end_s:
            raise RunFailed(f"hostd still sees jobs {LIMIT_S:g} s after they ended")
        time.sleep(0.1)


def _follow(group: ProcessGroup, duration_s: float, done: Callable[[], bool]) -> None:
    group.listen_until(done, time.monotonic_ns() + round(duration_s * 1e9))


def _all_controlled(daemons: Daemons) -> bool:
    return all(sum(job["controlled"] for job in status["jobs"]) == JOBS for status in daemons.statuses())


def _sample(host: DaemonProcess) -> Sample:
    own = psutil.Process(host.pid)
    guardian_mb = sum(child.memory_info().rss for child in own.children(recursive=True)) / 1e6
    return Sample(own.num_fds(), own.memory_info().rss / 1e6, own.num_threads(), guardian_mb)


def _report(samples: list[Sample], wall_s: float, status: dict[str, Any]) -> dict[str, object]:
    counted = samples[WARM_UP_ROUNDS:]
    half = max(1, len(counted) // 2)
    early, late = counted[:half], counted[-half:]
    return {
        "rounds": len(samples),
        "jobs": len(samples) * JOBS,
        "wall_s": round(wall_s, 1),
        "descriptors_first": counted[0].descriptors,
        "descriptors_last": counted[-1].descriptors,
        "resident_mb_first_half": round(fmean(one.resident_mb for one in early), 2),
        "resident_mb_second_half": round(fmean(one.resident_mb for one in late), 2),
        "threads_last": counted[-1].threads,
        "guardian_mb_last": round(counted[-1].guardian_mb, 2),
        "missed_slots": status["missed_slots"],
        "fail_opens": status["fail_opens"],
        "troubles": status["troubles"],
        "samples": [asdict(sample) for sample in samples],
    }
