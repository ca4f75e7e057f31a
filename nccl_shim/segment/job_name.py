"""The job's name where its owner gave none: the same on all of its hosts, from what they all were told.

    PACELINE_JOB                          as it is
    PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid   mpi-…: every process of one mpirun has it
    SLURM_JOB_ID                          slurm-42.0 with the step; outside of steps slurm-42, and MASTER_PORT behind it
    Kubernetes                            JOB_NAME, or the pod's name without what its controller appended; in front of
                                          it POD_NAMESPACE
    LSB_JOBID, PBS_JOBID, JOB_ID (SGE)    lsf-…, pbs-…, sge-…, with the number in an array, and MASTER_PORT behind it
    TORCHELASTIC_RUN_ID                   as it is, unless it is none
    MASTER_ADDR and MASTER_PORT           h0:29500; a loopback address stands for this host
    RAY_JOB_ID                            ray-…
    Kubernetes                            the pod's name
    PACELINE_LAUNCH                       of `paceline run`, script and pid: of all that it starts on this host
    none of these                         pid-N

Law: csrc/job_name.c makes the same name; a test compares the two. A name has at most MOST_BYTES and no "/", which
stands between user and name; a longer one ends with a hash of the whole, so that two long names stay two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from nccl_shim.segment.layout import JOB_BYTES

MOST_BYTES = JOB_BYTES - 1
HASH_BYTES = 9  # a dash and eight digits
SLURM_STEP_DIGITS = 9  # batch and interactive steps have numbers of ten
# A pod's name: the job's, then what the operator or the Job controller appends.
_POD = re.compile(
    r"(?P<job>.+?)-(?:(?:master|worker|launcher|chief|ps|server|evaluator)-[0-9]+|[0-9]+-[a-z0-9]{5}|[0-9]+)"
)
_PLAIN = re.compile(rb"[^A-Za-z0-9._:@+=,\[\]-]")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f/]")


def job_name(env: Mapping[str, str], hostname: str | None = None) -> str:
    """As the environment describes it, fitted."""
    if env.get("PACELINE_JOB"):
        return os.fsdecode(fitted(os.fsencode(env["PACELINE_JOB"])))
    name = _derived(env, os.uname().nodename if hostname is None else hostname)
    return os.fsdecode(fitted(_PLAIN.sub(b"_", os.fsencode(name))))


def fitted(name: bytes) -> bytes:
    """As it fits the segment's header."""
    name = _FORBIDDEN.sub(b"_", name)
    if len(name) <= MOST_BYTES:
        return name
    end = MOST_BYTES - HASH_BYTES
    while end and name[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return name[:end] + b"-%08x" % _hash(name)


def why_no_name(name: str) -> str | None:
    """What is wrong with a name that a user gave; None: nothing is."""
    if not name.strip():
        return "is empty"
    if not name.isprintable():
        return f"is {name!a}, expected printable characters"
    if "/" in name:
        return f"is {name}, expected a name without /, which stands between user and name"
    size = len(os.fsencode(name))
    return f"has {size} bytes, expected at most {MOST_BYTES}" if size > MOST_BYTES else None


def _derived(env: Mapping[str, str], hostname: str) -> str:
    mpi = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid") or ""
    if mpi and not mpi.startswith("slurm."):  # Slurm's own: its step says the same
        return f"mpi-{mpi}"
    if env.get("SLURM_JOB_ID"):
        step = env.get("SLURM_STEP_ID") or env.get("SLURM_STEPID") or ""
        is_step = step.isascii() and step.isdigit() and len(step) <= SLURM_STEP_DIGITS
        return f"slurm-{env['SLURM_JOB_ID']}.{step}" if is_step else _by_port(f"slurm-{env['SLURM_JOB_ID']}", env)
    if job := _in_kubernetes(env, hostname):
        return job
    if env.get("LSB_JOBID"):
        index = env.get("LSB_JOBINDEX") or "0"  # 0: no array
        return _by_port(f"lsf-{env['LSB_JOBID']}" + (f".{index}" if index != "0" else ""), env)
    if env.get("PBS_JOBID"):
        return _by_port(f"pbs-{env['PBS_JOBID']}", env)
    if env.get("SGE_ROOT") and env.get("JOB_ID"):
        index = env.get("SGE_TASK_ID") or "undefined"
        return _by_port(f"sge-{env['JOB_ID']}" + (f".{index}" if index != "undefined" else ""), env)
    if env.get("TORCHELASTIC_RUN_ID", "none") not in ("", "none"):
        return env["TORCHELASTIC_RUN_ID"]
    if env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
        address = env["MASTER_ADDR"]
        own = address in ("localhost", "::1") or address.startswith("127.")
        return f"{hostname if own else address}:{env['MASTER_PORT']}"
    if env.get("RAY_JOB_ID"):
        return f"ray-{env['RAY_JOB_ID']}"
    if env.get("KUBERNETES_SERVICE_HOST"):
        return env.get("POD_NAME") or hostname
    return env.get("PACELINE_LAUNCH") or f"pid-{os.getpid()}"


def _by_port(name: str, env: Mapping[str, str]) -> str:
    """What tells two launches in one allocation apart."""
    return f"{name}-{env['MASTER_PORT']}" if env.get("MASTER_PORT") else name


def _in_kubernetes(env: Mapping[str, str], hostname: str) -> str | None:
    if not env.get("KUBERNETES_SERVICE_HOST"):
        return None
    job = env.get("JOB_NAME")
    if not job:
        pod = _POD.fullmatch(env.get("POD_NAME") or hostname)
        if pod is None:
            return None
        job = pod["job"]
    return f"{env['POD_NAMESPACE']}.{job}" if env.get("POD_NAMESPACE") else job


def _hash(name: bytes) -> int:
    """FNV-1a of 32 bits."""
    found = 2166136261
    for byte in name:
        found = (found ^ byte) * 16777619 & 0xFFFF_FFFF
    return found
