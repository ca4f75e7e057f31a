"""The GPU of this machine, as far as torch can use it over NCCL."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

_MPS_CONTROL = "nvidia-cuda-mps-control"
_MPS_PLACE, _MPS_DEFAULT = "CUDA_MPS_PIPE_DIRECTORY", Path("/tmp/nvidia-mps")
_MPS_WITHIN_S = 30

_QUESTION = """
import json, torch
print(json.dumps({"name": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda,
                  "nccl": ".".join(map(str, torch.cuda.nccl.version()))}))
"""


@cache
def gpu() -> dict[str, str] | None:
    """Asked in a process of its own: a process that has used CUDA can fork none that uses it."""
    asked = [sys.executable, "-c", _QUESTION]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return None
    found: dict[str, str] = json.loads(answer.stdout.splitlines()[-1])
    return found


def has_gpu() -> bool:
    return gpu() is not None


@contextmanager
def kernels_side_by_side() -> Iterator[bool]:
    """Of all processes that are started inside, by MPS; False where there is none. Otherwise processes have the GPU in
    turns of milliseconds, and the NCCL kernels of all jobs wait for each other's."""
    if _MPS_PLACE in os.environ or (_MPS_DEFAULT / "control").exists():
        yield True  # somebody has started it
        return
    if which(_MPS_CONTROL) is None or not has_gpu():
        yield False
        return
    with TemporaryDirectory() as place:
        places = {_MPS_PLACE: place, "CUDA_MPS_LOG_DIRECTORY": place}
        command = partial(subprocess.run, env=os.environ | places, check=False, timeout=_MPS_WITHIN_S)
        if command([_MPS_CONTROL, "-d"]).returncode:
            yield False
            return
        os.environ |= places
        try:
            yield True
        finally:
            for name in places:
                del os.environ[name]
            command([_MPS_CONTROL], input="quit\n", text=True)
