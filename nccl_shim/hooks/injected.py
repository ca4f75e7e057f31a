"""What happens in every Python process of an observed job. Law: until torch is imported, next to nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from nccl_shim.hooks.post_import import AfterImport

_HOOKS = {"torch.nn.parallel.distributed": "torch_hook", "torch.distributed.rpc": "rpc_hook"}


def install() -> None:
    """Arms the hooks, unless switched off by PACELINE_SHIM=0."""
    if os.environ.get("PACELINE_SHIM") == "0":
        return
    sys.meta_path.insert(0, AfterImport({module: _installer(hook) for module, hook in _HOOKS.items()}))


def _installer(hook: str) -> Callable[[], None]:
    def run() -> None:
        try:
            module = __import__(f"nccl_shim.hooks.{hook}", fromlist=["install"])
            module.install()
        except Exception as error:
            sys.stderr.write(f"paceline: {hook} not installed: {error!r}; training goes on unobserved\n")

    return run
