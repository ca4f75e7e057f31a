"""The GPU of this machine, as far as torch can use it over NCCL."""

import json
import subprocess
import sys
from functools import cache

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
