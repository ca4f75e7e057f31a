"""A DDP job that starts anew under its name every twenty iterations, as torchrun or a user's loop would do.

restart   it ends properly, and the next begins
crash     its first worker is killed while it computes; the other workers notice by their connections, and all are
          started again

A supervisor in each worker's place forks the process that trains; a new one begins with the next iteration after a
pause, as after reading a checkpoint.
"""

import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import NoReturn

import torch.distributed as dist

from bench.child_process import die_with_parent
from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.ddp import prepare
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go
from bench.workload.training import join, leave

LIFE_ITERATIONS = 20
PAUSE_S = 0.5
_SPARE_PORTS = 7  # of a job, below that of the first rendezvous


def live(own: Assignment, number: int, crashes: bool) -> None:
    """One life of the worker, from the rendezvous to its end."""
    first, last = LIFE_ITERATIONS * number, min(LIFE_ITERATIONS * (number + 1), len(own.iterations))
    # The last life's store may still be there for a moment: a rendezvous of its own for each.
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) - number % _SPARE_PORTS)
    join(own)
    iterate, compute = prepare(own), ComputeTimes(own)
    dist.barrier()
    if number == 0:
        wait_for_go()
    for iteration in range(last):
        compute_s = compute.next_s()
        if iteration >= first:
            iterate(compute_s)
            iteration_ended()
    if crashes and last < len(own.iterations):
        if own.rank == 0:
            time.sleep(compute.next_s() / 2)
            os.kill(os.getpid(), signal.SIGKILL)
        with suppress(RuntimeError):  # the connection to the killed worker
            iterate(compute.next_s())
    else:
        leave()


def main(assignment: str, kind: str) -> None:
    own, supervisor = Assignment.from_json(assignment), os.getpid()
    for number in range(-(-len(own.iterations) // LIFE_ITERATIONS)):
        if number:
            time.sleep(PAUSE_S)
        pid = os.fork()
        if pid == 0:
            _run(own, number, kind == "crash", supervisor)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, -signal.SIGKILL):
            raise SystemExit(f"the process that trains ended with status {status}")
    done()


def _run(own: Assignment, number: int, crashes: bool, supervisor: int) -> NoReturn:
    status = 1
    try:
        die_with_parent(supervisor)()
        live(own, number, crashes)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
