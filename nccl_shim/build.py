"""Compiles the C libraries. Law: one command, no build system, the same flags for pip, tests and bare machines.

`pip install .` calls this through setup.py; `python -m nccl_shim.build [OUTPUT]` does it by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCES = tuple(
    PACKAGE / "csrc" / f"{name}.c"
    for name in (
        *("core", "segment", "registration", "identity", "job_name", "chain", "plugin"),
        *("page/decision", "page/hold", "page/reader", "page/launch_gate"),
    )
)
NET_SOURCES = tuple(
    PACKAGE / "csrc" / f"{name}.c"
    for name in (
        "page/decision",
        "page/hold",
        "page/reader",
        "net/bucket",
        "net/counts",
        "net/exports",
        "net/interfaces",
        "net/paced",
        "net/peer_tag",
        "net/wrapped",
        "net/wrapped_old",
        "tcp/connect",
        "tcp/transfer",
    )
)
LIBRARY_NAME = "libpaceline_shim.so"
NET_LIBRARY_NAME = "libpaceline_net.so"
# nodelete: NCCL closes its plugin while proxy threads may still be inside it.
FLAGS = ("-std=c11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread")
LINK_FLAGS = ("-shared", "-Wl,-z,nodelete", "-ldl")


class NoCompiler(Exception):
    """There is no C compiler, or it refused our source."""


def compiler() -> str | None:
    """The C compiler's path, or None."""
    return next(
        (found for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and (found := shutil.which(name))),
        None,
    )


def run_compiler(arguments: Sequence[str]) -> None:
    """Runs the compiler; raises NoCompiler with its last words."""
    cc = compiler()
    if cc is None:
        raise NoCompiler("no C compiler found")
    done = subprocess.run([cc, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoCompiler(done.stderr.strip() or f"{cc} failed")


def build(output: Path, extra_flags: Sequence[str] = (), sources: Sequence[Path] = SOURCES) -> Path:
    """Builds the library at `output`, atomically, so that a running job keeps the old one."""
    temporary = output.with_suffix(f".{os.getpid()}")
    run_compiler([*FLAGS, *extra_flags, *map(str, sources), "-o", str(temporary), *LINK_FLAGS])
    temporary.replace(output)
    return output


def build_net(output: Path, extra_flags: Sequence[str] = ()) -> Path:
    """Builds the net plugin, which `paceline run --throttle` gives to NCCL."""
    return build(output, extra_flags, NET_SOURCES)


def main() -> int:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE / LIBRARY_NAME
    try:
        print(build(output))
        print(build_net(output.with_name(NET_LIBRARY_NAME)))
    except (NoCompiler, OSError) as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
