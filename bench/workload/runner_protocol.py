"""How a process of a job and the runner that measures it talk: lines on the process's standard output and input.

    process  ready                     connected, everything loaded
    runner   go 123456789              begin when the machine's monotonic clock shows this, in ns
    process  123999999                 the end of an iteration, on the same clock, one line each
    process  done                      all is done; a process that ends without this line has failed
    runner   closes its end            all processes of the job are done: one that others still ask must not go before

A process with more to do than there is time for is killed.
"""

import sys
import time

READY = "ready"
GO = "go"
DONE = "done"


def wait_for_go() -> None:
    """Says that this process is ready, and returns when all are and its job may start."""
    print(READY, flush=True)
    word, start_ns = sys.stdin.readline().split()
    if word != GO:
        raise SystemExit(f"expected {GO!r} on standard input, found {word!r}")
    time.sleep(max(0.0, int(start_ns) / 1e9 - time.monotonic()))


def iteration_ended() -> None:
    print(time.monotonic_ns(), flush=True)


def done() -> None:
    print(DONE, flush=True)
    sys.stdin.readline()
