"""Starts a two-rank job as a person would, watches it as the daemon would, and gives back what both saw."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nccl_shim.segment.reader import ProcessView, Reader
from nccl_shim.segment.snapshot import IterationCounter

SCRIPTS = Path(__file__).parent / "scripts"
OBSERVED = (sys.executable, "-m", "nccl_shim", "run", "--job", "test-job", "--")


@dataclass
class ObservedRun:
    printed: list[list[dict]]  # by rank: the JSON objects the script printed
    errors: list[str]
    counters: dict[int, dict[int, IterationCounter]]  # rank → iteration → counter, as polled while it ran
    views: dict[int, ProcessView]  # rank → the last view


def child_env(library_path: Path, shm_dir: Path) -> dict[str, str]:
    """The environment for a child process that counts: ours, less what would give it another identity."""
    foreign = (
        "PACELINE_",
        "SLURM_",
        "TORCHELASTIC_",
        "OMPI_",
        "PMI_",
        "PMIX_",
        "MASTER_",
        "KUBERNETES_",
        "POD_",
        "JOB_",
        "LSB_",
        "PBS_",
        "SGE_",
        "RAY_",
        "NCCL_",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return env | {
        "PACELINE_SHM_DIR": str(shm_dir),
        "PACELINE_SHIM_LIBRARY": str(library_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": "1",
    }


def our_lines(stderr: str) -> list[str]:
    """What Paceline printed itself. The word alone may stand in any path: a clone is usually called `paceline`."""
    return [line for line in stderr.splitlines() if line.startswith("paceline: ")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(
    script: str,
    env: dict[str, str],
    shm_dir: Path,
    launcher: Sequence[str] = OBSERVED,
    timeout_s: float = 120,
) -> ObservedRun:
    """Runs `script` on two ranks to its end."""
    base = env | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "lo",
        "TP_SOCKET_IFNAME": "lo",
    }
    outputs = [tempfile.TemporaryFile("w+") for _ in range(4)]  # noqa: SIM115 - closed below
    children = [
        subprocess.Popen(
            [*launcher, sys.executable, str(SCRIPTS / script)],
            env=base | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=outputs[rank],
            stderr=outputs[2 + rank],
        )
        for rank in range(2)
    ]
    counters: dict[int, dict[int, IterationCounter]] = {0: {}, 1: {}}
    views: dict[int, ProcessView] = {}
    until = time.monotonic() + timeout_s
    try:
        with Reader(shm_dir, estimate_waiting=True) as reader:
            running = True
            while running:
                running = any(child.poll() is None for child in children) and time.monotonic() < until
                for view in reader.poll():
                    rank, counter = view.snapshot.global_rank, view.snapshot.iteration_counter
                    views[rank] = view
                    if counter is not None:
                        counters[rank][counter.iteration] = counter
                time.sleep(0.002)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read())
        output.close()
    assert [child.returncode for child in children] == [0, 0], "\n".join(texts)
    printed = [[json.loads(line) for line in text.splitlines() if line.startswith("{")] for text in texts[:2]]
    return ObservedRun(printed, texts[2:], counters, views)
