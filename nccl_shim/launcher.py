"""The environment in which a job is observed. Law: the job's command, files and own settings stay as they
are; all that happens is a handful of variables, each of which the job would tolerate anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nccl_shim.segment.clibrary import LibraryUnusable, library_path, load_library
from nccl_shim.segment.identity import identity_from_env
from nccl_shim.segment.layout import DEFAULT_DIRECTORY
from nccl_shim.throttle import finds_library

INJECT = Path(__file__).parent / "inject"
DEFAULT_PROFILER = "libnccl-profiler.so"
_SERVER_POD = re.compile(r"-(?:ps|server)-\d+$")


def launch_name(command: Sequence[str]) -> str:
    """What tells this launch from others on this host, where nothing else does."""
    script = next((Path(word).stem for word in command if word.endswith(".py")), Path(command[0]).name)
    return f"{script}-{os.getpid()}"


def observed_environment(
    env: Mapping[str, str],
    command: Sequence[str],
    hostname: str,
    job: str | None = None,
    pattern: str | None = None,
    role: str | None = None,
    shm_dir: Path | None = None,
    socket: Path | None = None,
    weight: str | None = None,
    iterations: int | None = None,
) -> dict[str, str]:
    """What to add to `env` so that `command` is observed. A job that was given no name has the one that its processes
    find (segment/job_name.py): they know more than the launcher does, such as the address where they meet."""
    added = {
        "PACELINE_SHM_DIR": str(shm_dir or env.get("PACELINE_SHM_DIR") or DEFAULT_DIRECTORY),
        "PYTHONPATH": _first_on_path(str(INJECT), env.get("PYTHONPATH", "")),
    }
    if given := job or env.get("PACELINE_JOB"):
        added["PACELINE_JOB"] = given
    else:
        added["PACELINE_LAUNCH"] = launch_name(command)
    told = env if socket is None else {**env, "PACELINE_SOCKET": str(socket)}
    if (registered_at := identity_from_env({**told, **added}).socket) is not None:
        added["PACELINE_SOCKET"] = str(registered_at)
    if weight:
        added["PACELINE_WEIGHT"] = weight
    if iterations:
        added["PACELINE_ITERATIONS"] = str(iterations)
    if pattern:
        added["PACELINE_PATTERN"] = pattern
    role = role or env.get("PACELINE_ROLE") or ("server" if _SERVER_POD.search(hostname) else None)
    if role:
        added["PACELINE_ROLE"] = role
    return added | _nccl_plugin(env)


def _nccl_plugin(env: Mapping[str, str]) -> dict[str, str]:
    """Puts our plugin in; one that the user chose is chained behind it."""
    ours = library_path().resolve()
    try:
        load_library(ours)
    except LibraryUnusable:  # of another version, say: NCCL would count into a file of its own
        return {}
    added = {"NCCL_PROFILER_PLUGIN": str(ours)}
    theirs = env.get("NCCL_PROFILER_PLUGIN", "")
    if not theirs and finds_library(DEFAULT_PROFILER, env):  # NCCL would, too
        theirs = DEFAULT_PROFILER
    if theirs and theirs.lower() != "none" and Path(theirs).name != ours.name:
        added["NCCL_SHIM_CHAIN"] = theirs
    return added


def _first_on_path(entry: str, path: str) -> str:
    """An empty part means the working directory, and stays."""
    parts = path.split(os.pathsep) if path else []
    return os.pathsep.join([entry, *(part for part in parts if part != entry)])
