"""Faults of files and of those who operate a host: a full disk, a lost undo log, releases and reloads at a bad time.

A reload is a signal that ends a daemon which does not know it yet: systemd sends it to one that is ready, and so does
this.
"""

import os
import signal
import time
from collections.abc import Mapping
from math import inf

from bench.chaos.plan import Fault
from bench.chaos.small_disk import empty, fill
from bench.chaos.supervisor import Supervised
from bench.chaos.world import Done, Perform, World

NOT_READY = "hostd was not ready"
UNDO_LOG = "lease.json"
STARTING_S = 3.0
ENFORCE, ADVISE, BAD = 'mode = "enforce"', 'mode = "advise"', 'mode = "force"'


def _is_ready(daemon: Supervised) -> bool:
    if not daemon.runs:
        return False
    try:
        return bool(daemon.daemon.status())
    except OSError:
        return False


def _reload(daemon: Supervised, text: str) -> None:
    """Where it is not ready it reads the file when it starts."""
    daemon.daemon.config_path.write_text(text)
    if _is_ready(daemon):
        daemon.daemon.signal(signal.SIGHUP)


def _with_mode(mode: str) -> Perform:
    def perform(world: World, fault: Fault) -> Done:
        daemon = world.hosts[fault.target]
        if not _is_ready(daemon):
            return Done(NOT_READY)
        good = daemon.daemon.config_path.read_text()
        _reload(daemon, good.replace(ENFORCE, mode))
        return Done(undo=lambda: _reload(daemon, good))

    return perform


def _release(world: World, fault: Fault) -> Done:
    """Then a reload, without which hostd would set nothing any more."""
    daemon = world.hosts[fault.target]
    if not _is_ready(daemon):
        return Done(NOT_READY)
    command = daemon.release()

    def go_on() -> None:
        command.wait()
        _reload(daemon, daemon.daemon.config_path.read_text())

    return Done(undo=go_on)


def _full_disk(world: World, fault: Fault) -> Done:
    """While it is full something happens that needs the undo log, or hostd starts again."""
    daemon, place = world.hosts[fault.target], world.hosts[fault.target].daemon.place
    fill(place)
    daemon.may_fail_until_s = inf
    note = ""
    if fault.chance < 0.3 and daemon.runs:
        daemon.kill()
        note = "and hostd is killed"
    elif fault.chance < 0.6:
        job = next(job for job in world.jobs.values() if fault.target in job.seen.hosts)
        job.kill()
        job.start()
        note = f"and job {job.name} starts again"

    def end() -> None:
        empty(place)
        daemon.may_fail_until_s = time.monotonic() + STARTING_S  # what began while it was full

    return Done(note, end)


def _delete_undo_log(world: World, fault: Fault) -> Done:
    try:
        (world.hosts[fault.target].daemon.place / UNDO_LOG).unlink()
    except FileNotFoundError:
        return Done("there was none")
    return Done()


def _truncate_undo_log(world: World, fault: Fault) -> Done:
    path = world.hosts[fault.target].daemon.place / UNDO_LOG
    try:
        size_bytes = path.stat().st_size
        os.truncate(path, int(fault.chance * size_bytes))
    except FileNotFoundError:
        return Done("there was none")
    return Done(f"to {int(fault.chance * size_bytes)} of {size_bytes} bytes")


FAULTS: Mapping[str, Perform] = {
    "full-disk": _full_disk,
    "delete-undo-log": _delete_undo_log,
    "truncate-undo-log": _truncate_undo_log,
    "release": _release,
    "reload": _with_mode(ADVISE),
    "bad-reload": _with_mode(BAD),
}
