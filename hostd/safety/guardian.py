"""The guardian: a small process that lifts every limit when hostd no longer speaks.

    hostd ── a byte per slot ──▶ pipe ──▶ guardian     silence for `patience_ms` or a closed pipe: perform the undo log

Stopped, hung, killed or crashed, hostd falls silent, and the kernel would keep its last rates for ever. The
guardian knows nothing but the pipe and the undo log, and ends after a release: when hostd wakes up it
finds its guardian gone and the lease revoked. The signals that end a service are blocked when it is started
(hostd/workers/child.py), or it would end before hostd does; with both of them killed, systemd's ExecStopPost releases.

It touches no object of a job: sockets are taken back by its children, which it does not wait for (hostd/workers).
"""

import os
import select
import sys
from pathlib import Path

from hostd.safety.undo_log import BadUndoLog, release

READY = "watching"
REVOKED = 3  # exit status after a release; 0: the lease had ended already


def main(arguments: list[str]) -> int:
    heartbeat, patience_ms, path = int(arguments[0]), int(arguments[1]), Path(arguments[2])
    print(READY, flush=True)
    wait_for_silence(heartbeat, patience_ms)
    if not path.exists():
        return 0
    try:
        problems = release(path)
    except BadUndoLog as error:
        problems = {str(path): str(error)}
    for key, problem in problems.items():
        print(f"guardian: could not restore {key}: {problem}", file=sys.stderr)
    return REVOKED


def wait_for_silence(heartbeat: int, patience_ms: int) -> None:
    """Returns when the pipe is closed or silent for too long."""
    waiting = select.poll()
    waiting.register(heartbeat, select.POLLIN)
    while waiting.poll(patience_ms) and os.read(heartbeat, 4096):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
