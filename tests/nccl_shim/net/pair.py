"""Two processes over the plugin, started and judged."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
NOWHERE = "/nonexistent"


@dataclass
class Pair:
    sender: "subprocess.Popen[str]"
    receiver: "subprocess.Popen[str]"

    def results(self, timeout_s: float = 60) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the sender and the receiver say at their end."""
        said = []
        for process in (self.sender, self.receiver):
            output, errors = process.communicate(timeout=timeout_s)
            assert process.returncode == 0, errors
            said.append(json.loads(output))
        return said[0], said[1]


@contextmanager
def pair(library: Path, plan: dict[str, Any], receiver: dict[str, Any] | None = None, page: Path | None = None,
         extra_env: dict[str, str] | None = None) -> Iterator[Pair]:  # fmt: skip
    """Both ranks, connected or about to be; `receiver` is what its plan has besides."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "PACELINE_"))}
    env |= {"NCCL_SOCKET_IFNAME": "lo", "PACELINE_NET_WRAPS": "none", "PYTHONPATH": str(ROOT)} | (extra_env or {})
    env["PACELINE_PAGE"] = str(page or NOWHERE)
    started = []
    try:
        for role, more in (("receive", receiver or {}), ("send", {})):
            told = json.dumps({**plan, "library": str(library), "role": role, **more})
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.nccl_shim.net.rank", told],
                    env=env, cwd=ROOT, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )  # fmt: skip
        first, second = started
        assert first.stdout is not None and second.stdin is not None
        second.stdin.write(first.stdout.readline())
        second.stdin.flush()
        yield Pair(second, first)
    finally:
        for process in started:
            process.kill()
            with process:
                pass


def exchanged(library: Path, messages: Sequence[tuple[int, int]], **plan: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    with pair(library, {"messages": list(messages), **plan}) as both:
        return both.results()
