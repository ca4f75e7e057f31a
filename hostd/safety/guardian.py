"""The guardian: a small process that lifts every limit when hostd no longer speaks.

    hostd ── a byte per slot ──▶ pipe ──▶ guardian     silence for `patience_ms` or a closed pipe: perform the undo log

A hostd that waits for a CPU is given STARVED of that patience more: on a busy machine it mostly speaks a moment later,
and to begin anew would cost it more of what it lacks.

Before its first byte hostd has set nothing, and has BEGIN_MS: on a busy machine it takes a while to begin, and would be
revoked again and again.

Stopped, hung, killed or crashed, hostd falls silent, and the kernel would keep its last rates for ever. The
guardian knows nothing but the pipe and the undo log, and ends after a release: when hostd wakes up it
finds its guardian gone and the lease revoked. The signals that end a service are blocked when it is started
(hostd/workers/child.py), or it would end before hostd does; with both of them killed, systemd's ExecStopPost releases.

It touches no object of a job: sockets are taken back by its children, which it does not wait for (hostd/workers). What
it has done it says on hostd's own standard error, in the format of hostd's log.
"""

import json
import os
import select
import sys
from datetime import UTC, datetime
from pathlib import Path

from hostd.safety.undo_log import BadUndoLog, release

READY = "watching"
BEGIN_MS = 10_000
STARVED = 0.8  # with five slots of patience, nine in all: jobs are promised ten
REVOKED = 3  # exit status after a release; 0: the lease had ended already


def main(arguments: list[str]) -> int:
    heartbeat, patience_ms, path = int(arguments[0]), int(arguments[1]), Path(arguments[2])
    print(READY, flush=True)
    ended = wait_for_silence(heartbeat, patience_ms, os.getppid())
    if not path.exists():
        return 0
    try:
        problems = release(path)
    except BadUndoLog as error:
        problems = {str(path): str(error)}
    why = "hostd ended without giving its lease back" if ended else f"nothing heard from hostd for {patience_ms} ms"
    _log("warning", f"every limit was lifted: {why}", pid=os.getpid())
    for key, problem in problems.items():
        _log("error", f"could not restore {key}: {problem}", pid=os.getpid())
    return REVOKED


def wait_for_silence(heartbeat: int, patience_ms: int, pid: int) -> bool:
    """Returns when the pipe is closed, True, or silent for too long."""
    waiting = select.poll()
    waiting.register(heartbeat, select.POLLIN)
    limit_ms = BEGIN_MS
    while waiting.poll(limit_ms) or (_waits_for_cpu(pid) and waiting.poll(round(STARVED * patience_ms))):
        limit_ms = patience_ms
        if not os.read(heartbeat, 4096):
            return True
    return False


def _waits_for_cpu(pid: int) -> bool:
    """Or has it: it may still speak. A process that is stopped, or held in a system call, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


def _log(level: str, message: str, **fields: object) -> None:
    """As paceline/service/logs.py does, which is too large to be imported here. A full disk costs the line."""
    line = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level}
    text = json.dumps({**line, "logger": "hostd.safety.guardian", "message": message, **fields})
    try:
        if sys.stderr.isatty():
            text = f"{datetime.now():%H:%M:%S} {level.upper():<8} hostd.safety.guardian: {message}"
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
