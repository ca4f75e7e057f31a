"""Compiles the BPF programs. Law: the object beside a source is what Debian's clang 14 makes of it, and is committed.

    python -m hostd.congestion.build SOURCE.bpf.c ...     with clang and llvm-strip

Hosts have no compiler: the object travels with the package, and libbpf fits it to their kernel.
"""

import subprocess
import sys
from pathlib import Path

HEADERS = Path(__file__).resolve().parent
FLAGS = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror")


class BuildError(Exception):
    """str() is the compiler's last words."""


def build(source: Path, output: Path) -> Path:
    """The same source, compiler and flags make the same bytes, wherever the source lies."""
    source = source.resolve()
    nowhere = [f"-ffile-prefix-map={folder}=." for folder in {source.parent, HEADERS}]
    compiled = ("-I", str(HEADERS), "-c", str(source), "-o", str(output))
    _run("clang", *FLAGS, *nowhere, "-fdebug-compilation-dir=.", *compiled)
    _run("llvm-strip", "-g", str(output))
    return output


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is missing (Debian: sudo apt install clang llvm)") from None
    if done.returncode != 0:
        raise BuildError(done.stderr.strip() or f"{command[0]} failed")


def main() -> int:
    try:
        for source in map(Path, sys.argv[1:]):
            print(build(source, source.with_suffix(".o")))
    except BuildError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
