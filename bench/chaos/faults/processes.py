"""Faults of processes: daemons, their children and jobs are killed, stand still, start again."""

import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil

from bench.chaos.plan import Fault
from bench.chaos.supervisor import Supervised
from bench.chaos.world import GUARDIAN, WORKER, Done, Perform, World

MOST_SKEW_S = 5.0
NOT_RUNNING = "it was not running"


def _kill(daemon: Supervised) -> Done:
    if not daemon.runs:
        return Done(NOT_RUNNING)
    daemon.kill()
    return Done()


def _stop(daemon: Supervised) -> Done:
    if not daemon.runs:
        return Done(NOT_RUNNING)
    process = daemon.daemon.process
    process.send_signal(signal.SIGSTOP)
    return Done(undo=lambda: process.send_signal(signal.SIGCONT))


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)


def _kill_children(world: World, fault: Fault, module: str) -> Done:
    found = world.children(fault.target, module)
    _signal(found, signal.SIGKILL)
    return Done("" if found else NOT_RUNNING)


def _stop_children(world: World, fault: Fault, module: str) -> Done:
    found = world.children(fault.target, module)
    _signal(found, signal.SIGSTOP)
    return Done("" if found else NOT_RUNNING, lambda: _signal(found, signal.SIGCONT))


def _kill_both(world: World, fault: Fault) -> Done:
    guardians = world.children(fault.target, GUARDIAN)
    _signal(guardians, signal.SIGSTOP)  # it must not notice
    done = _kill(world.hosts[fault.target])
    _signal(guardians, signal.SIGKILL)
    return done


def _step_clock(world: World, fault: Fault) -> Done:
    """Back and forth around the true time, so that steps of both signs come."""
    daemon = world.switches[fault.target]
    skew_s = round((2 * fault.chance - 1) * MOST_SKEW_S, 3)
    config = ["--config", str(daemon.daemon.config_path)]
    daemon.daemon.argv[:] = [sys.executable, "-m", "bench.chaos.skewed", str(skew_s), "switchd", *config]
    done = _kill(daemon)
    return Done(done.note or f"by {skew_s:+.1f} s from the true time")


def _kill_job(world: World, fault: Fault) -> Done:
    job = world.jobs[fault.target]
    job.kill()
    return Done(undo=job.start)


def _stop_job(world: World, fault: Fault) -> Done:
    job = world.jobs[fault.target]
    hosts = list(job.pids)
    if not hosts or not job.trains:
        return Done(NOT_RUNNING)
    host = hosts[int(fault.chance * len(hosts))]
    pid = job.pids[host]
    job.stop(host, signal.SIGSTOP)

    def go_on() -> None:
        if job.pids.get(host) == pid:
            job.stop(host, signal.SIGCONT)

    return Done(f"its worker on {host}", go_on)


FAULTS: Mapping[str, Perform] = {
    "kill-hostd": lambda world, fault: _kill(world.hosts[fault.target]),
    "stop-hostd": lambda world, fault: _stop(world.hosts[fault.target]),
    "kill-guardian": lambda world, fault: _kill_children(world, fault, GUARDIAN),
    "stop-guardian": lambda world, fault: _stop_children(world, fault, GUARDIAN),
    "kill-both": _kill_both,
    "kill-worker": lambda world, fault: _kill_children(world, fault, WORKER),
    "stop-worker": lambda world, fault: _stop_children(world, fault, WORKER),
    "kill-switchd": lambda world, fault: _kill(world.switches[fault.target]),
    "stop-switchd": lambda world, fault: _stop(world.switches[fault.target]),
    "step-clock": _step_clock,
    "kill-job": _kill_job,
    "restart-job": _kill_job,
    "stop-job": _stop_job,
}
