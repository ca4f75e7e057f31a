"""`paceline run --throttle`: the environment in which NCCL sends through our net plugin.

Law: the transport that NCCL would have used stays the one that carries the bytes, or the command is refused. Behind
ours comes the plugin that the user named, or libnccl-net.so. NCCL's own transports cannot be wrapped: its sockets are
replaced by ours, which are alike; InfiniBand is not. All ranks of a job need the flag, or none.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nccl_shim.build import NET_LIBRARY_NAME, PACKAGE

DEFAULT_PLUGIN = "libnccl-net.so"
OUR_NAME = "Paceline"  # of our own transport, as NCCL_NET has it
LDCONFIG = "/sbin/ldconfig"
RDMA_DEVICES = Path("/sys/class/infiniband")


class ThrottleRefused(Exception):
    """Why the job cannot be started so, in one line."""


def net_library_path(env: Mapping[str, str]) -> Path:
    return Path(env.get("PACELINE_NET_LIBRARY") or PACKAGE / NET_LIBRARY_NAME).resolve()


def throttle_environment(env: Mapping[str, str], rdma_devices: Path = RDMA_DEVICES) -> dict[str, str]:
    """What to add to `env`; raises ThrottleRefused."""
    library = net_library_path(env)
    if not library.is_file():
        raise ThrottleRefused(f"no {library}; run python -m nccl_shim.build")
    if "," in str(library) or len(os.fsencode(library)) > 250:
        raise ThrottleRefused(f"NCCL takes no plugin whose path has a comma or 250 bytes: {library}")
    named, transport = env.get("NCCL_NET_PLUGIN", ""), env.get("NCCL_NET", "").lower()
    added = {"NCCL_NET_PLUGIN": str(library)}
    if named and named.lower() != "none":
        if Path(named).name == NET_LIBRARY_NAME:  # of a `paceline run` around this one, with what it found
            return added
        return added | {"PACELINE_NET_WRAPS": named}
    if transport == "ib":
        raise ThrottleRefused("NCCL_NET=IB is NCCL's own and cannot be wrapped; name a net plugin in NCCL_NET_PLUGIN")
    if transport == "socket":
        return added | {"PACELINE_NET_WRAPS": "none", "NCCL_NET": OUR_NAME}
    device = _rdma_device(env, rdma_devices)
    if device is not None and (named or not finds_library(DEFAULT_PLUGIN, env)):
        raise ThrottleRefused(
            f"NCCL would use {device} by itself, which cannot be wrapped; name a net plugin in NCCL_NET_PLUGIN,"
            " or set NCCL_IB_DISABLE=1 for TCP"
        )
    if named:
        return added | {"PACELINE_NET_WRAPS": "none"}
    # Told so, the library leaves NCCL alone where it cannot wrap the default plugin, instead of taking sockets.
    return added | ({"PACELINE_NET_WRAPS": DEFAULT_PLUGIN} if finds_library(DEFAULT_PLUGIN, env) else {})


def finds_library(name: str, env: Mapping[str, str]) -> bool:
    """Whether NCCL would load it by its name alone."""
    folders = [Path(folder) for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    if any((folder / name).is_file() for folder in folders):
        return True
    try:
        cache = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return any(line.split()[:1] == [name] for line in cache.splitlines())


def _rdma_device(env: Mapping[str, str], devices: Path) -> str | None:
    """An RDMA device that NCCL would use."""
    if env.get("NCCL_IB_DISABLE") == "1":
        return None
    try:
        return min(path.name for path in devices.iterdir())
    except (OSError, ValueError):
        return None
