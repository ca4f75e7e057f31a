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

INJECT = Path(__file__).parent / "inject"
# A Kubernetes pod's host name: the job's name, then what the operator or the Job controller appends.
_POD = re.compile(r"^(?P<job>.+?)-(?:(?:master|worker|launcher|chief|ps|server|evaluator)-\d+|\d+-[a-z0-9]{5}|\d+)$")
_SERVER_POD = re.compile(r"-(?:ps|server)-\d+$")


def job_name(env: Mapping[str, str], command: Sequence[str], hostname: str) -> str:
    """The job's name, the same on all of its hosts where the cluster gives it one."""
    if env.get("PACELINE_JOB"):
        return env["PACELINE_JOB"]
    if env.get("SLURM_JOB_ID"):
        return f"slurm-{env['SLURM_JOB_ID']}"
    if env.get("KUBERNETES_SERVICE_HOST"):
        pod = _POD.match(hostname)
        return pod["job"] if pod else hostname
    elastic = env.get("TORCHELASTIC_RUN_ID") or _option(command, ("--rdzv-id", "--rdzv_id"))
    if elastic and elastic != "none":
        return elastic
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
) -> dict[str, str]:
    """What to add to `env` so that `command` is observed."""
    added = {
        "PACELINE_JOB": job or job_name(env, command, hostname),
        "PACELINE_SHM_DIR": str(shm_dir or env.get("PACELINE_SHM_DIR") or DEFAULT_DIRECTORY),
        "PYTHONPATH": _first_on_path(str(INJECT), env.get("PYTHONPATH", "")),
    }
    told = env if socket is None else {**env, "PACELINE_SOCKET": str(socket)}
    if (registered_at := identity_from_env({**told, **added}).socket) is not None:
        added["PACELINE_SOCKET"] = str(registered_at)
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
    if theirs and theirs.lower() != "none" and Path(theirs).name != ours.name:
        added["NCCL_SHIM_CHAIN"] = theirs
    return added


def _first_on_path(entry: str, path: str) -> str:
    return os.pathsep.join([entry, *(part for part in path.split(os.pathsep) if part and part != entry)])


def _option(command: Sequence[str], names: Sequence[str]) -> str | None:
    for index, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(command[index + 1 : index + 2]), None)
    return None
