"""This process's ranks and role. Law: the launcher's word first, then the framework's, then the cluster's.

Its job: job_name.py. The same names in the same order as csrc/identity.c; a test compares the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nccl_shim.segment.job_name import fitted, job_name
from nccl_shim.segment.layout import DEFAULT_DIRECTORY, DEFAULT_SOCKET, ProcessRole

RANK_NAMES = (
    "PACELINE_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "JOB_COMPLETION_INDEX",
)
WORLD_NAMES = ("PACELINE_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
ITERATION_NAMES = ("PACELINE_ITERATIONS",)
LOCAL_NAMES = ("PACELINE_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
WEIGHT_CLASSES = {"normal": 1000, "best-effort": 100}
_WEIGHT = re.compile(r"([0-9]{1,3})(?:\.([0-9]{0,3}))?")
SOCKET_BYTES = 108  # of a unix socket's path, as the kernel takes it


@dataclass(frozen=True)
class Identity:
    job: str
    directory: Path
    global_rank: int = -1
    world_size: int = 0
    local_rank: int = -1
    role: ProcessRole = ProcessRole.WORKER
    weight_milli: int = 0  # that the job asks for, in thousandths; 0: it asks for none
    iterations: int = 0  # that this process will do; 0: nobody said
    socket: Path | None = None  # of hostd; None: counters go into a file in the directory

    @property
    def job_bytes(self) -> bytes:
        """The job's name as it fits the header."""
        return fitted(os.fsencode(self.job))


def identity_from_env(env: Mapping[str, str] | None = None) -> Identity:
    """The identity that the environment (default: this process's) describes."""
    env = os.environ if env is None else env
    directory = Path(env.get("PACELINE_SHM_DIR") or DEFAULT_DIRECTORY)
    return Identity(
        job=job_name(env),
        directory=directory,
        global_rank=_integer_of(env, RANK_NAMES, -1),
        world_size=_integer_of(env, WORLD_NAMES, 0),
        local_rank=_integer_of(env, LOCAL_NAMES, -1),
        role=ProcessRole.SERVER if env.get("PACELINE_ROLE") == "server" else ProcessRole.WORKER,
        weight_milli=weight_milli_of(env.get("PACELINE_WEIGHT", "")),
        iterations=_integer_of(env, ITERATION_NAMES, 0),
        socket=_socket_of(env, directory),
    )


def _socket_of(env: Mapping[str, str], directory: Path) -> Path | None:
    """A directory of its own is a hostd of its own, whose socket is not known."""
    path = env.get("PACELINE_SOCKET") or (str(DEFAULT_SOCKET) if directory == DEFAULT_DIRECTORY else "0")
    return None if path == "0" or len(os.fsencode(path)) >= SOCKET_BYTES else Path(path)


def weight_milli_of(text: str) -> int:
    """Of a number such as 2 or 0.25, or of a class; 0: it is no such thing."""
    if text in WEIGHT_CLASSES:
        return WEIGHT_CLASSES[text]
    found = _WEIGHT.fullmatch(text)
    return 1000 * int(found[1]) + int((found[2] or "").ljust(3, "0")) if found else 0


def _integer_of(env: Mapping[str, str], names: tuple[str, ...], otherwise: int) -> int:
    for name in names:
        text = env.get(name, "")
        if text.isascii() and text.isdigit() and int(text) < 2**31:
            return int(text)
    return otherwise
