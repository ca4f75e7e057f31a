"""What a run must not leave behind: processes, namespaces, files, descriptors of daemons."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from bench.child_process import owner_mark
from bench.jobs.daemons import DaemonProcess
from bench.testbed.leftovers import marked_processes
from bench.testbed.network import Testbed

MORE_DESCRIPTORS = 12  # than at the beginning; what a fault is about to let go may still be open
_GONE_WITHIN_S = 5.0
_STAY = {"config.toml", "lock", "lease.bad"}  # of a hostd that has stopped: lock.py and undo_log.py say why
_STAYS_EMPTY = "jobs"  # containers have mounted it, for the next hostd's socket


def descriptors(daemons: Iterable[DaemonProcess]) -> dict[str, int]:
    counts = {}
    for daemon in daemons:
        with suppress(psutil.Error):
            counts[f"{daemon.program} on {daemon.node}"] = psutil.Process(daemon.pid).num_fds()
    return counts


def more_descriptors(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    return [
        f"{name} has {after[name]} descriptors, {count} at the beginning"
        for name, count in before.items()
        if after.get(name, 0) > count + MORE_DESCRIPTORS
    ]


def files_left(place: Path) -> list[str]:
    """In the runtime directory of a hostd that has stopped."""
    found = [path for path in place.iterdir() if path.name not in _STAY | {_STAYS_EMPTY}]
    if (place / _STAYS_EMPTY).is_dir():
        found += (place / _STAYS_EMPTY).iterdir()
    return [f"{place.name}/{path.relative_to(place)} stays" for path in sorted(found)]


def namespaces_of(testbed: Testbed) -> dict[int, str]:
    return {os.fstat(node.fd).st_ino: name for name, node in testbed.nodes.items()}


def processes_left(namespaces: Mapping[int, str], children: Iterable[tuple[int, float]]) -> list[str]:
    """Of a run whose testbed is closed: in its namespaces, children of its daemons, or with its mark."""
    own = owner_mark(os.getpid())
    pids = {pid for pid, mark in marked_processes() if mark == own}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "ns/net").stat().st_ino in namespaces:
                pids.add(int(process.name))
    left = [psutil.Process(pid) for pid in sorted(pids - {os.getpid()}) if psutil.pid_exists(pid)]
    for pid, started_s in children:
        with suppress(psutil.NoSuchProcess):
            if (process_of := psutil.Process(pid)).create_time() == started_s:
                left.append(process_of)
    _, alive = psutil.wait_procs(left, _GONE_WITHIN_S)
    return [f"process {one.pid} ({_command(one)}) still runs" for one in alive if _command(one)]


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline()[:6]) or process.name()
    return ""
