"""Where a result came from: version, commit and machine, so that numbers can be compared later."""

import os
import platform
import subprocess
from pathlib import Path

from paceline import __version__

CHECKOUT = Path(__file__).parents[2]


def provenance() -> dict[str, object]:
    return {
        "version": __version__,
        "commit": commit(),
        "machine": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "cpus": os.cpu_count(),
        },
    }


def commit() -> str | None:
    """Of the checkout this runs from, with "-dirty" where files differ; None when installed elsewhere."""
    # --git-dir: where Paceline is installed inside another repository, git would otherwise find that one.
    command = ["git", f"--git-dir={CHECKOUT / '.git'}", f"--work-tree={CHECKOUT}"]
    command += ["describe", "--always", "--exclude=*", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
