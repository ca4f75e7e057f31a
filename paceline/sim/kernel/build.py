"""Compiles the C files of this folder and of control/. Law: one command, no build system, and numpy's rounding.

`pip install` calls this through setup.py, and library.py in a checkout whose library is missing or of another source.
It imports nothing of Paceline, so that setup.py can load it by its path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

FOLDER = Path(__file__).parent
HEADERS = tuple(sorted(FOLDER.rglob("*.h")))
SOURCES = tuple(sorted(FOLDER.rglob("*.c")))
LIBRARY = FOLDER / "network.so"
# No fused multiply and add: numpy rounds after each operation.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra")


def source_mark() -> str:
    return f"paceline network {crc32(b''.join(path.read_bytes() for path in (*HEADERS, *SOURCES))):08x}"


def up_to_date() -> bool:
    """Whether the library is there, and of this source; looked up in the file, since a loaded library stays loaded."""
    return LIBRARY.exists() and source_mark().encode() in LIBRARY.read_bytes()


class NoCompiler(Exception):
    """There is no C compiler, or it refused the source."""


def build(output: Path = LIBRARY) -> Path:
    """Builds the library at `output`, atomically, so that a running simulation keeps the old one."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    compiler = next((found for name in compilers if name and (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler("no C compiler found")
    temporary = output.with_suffix(f".{os.getpid()}")
    command = [compiler, *FLAGS, f'-DSOURCE_MARK="{source_mark()}"', *map(str, SOURCES), "-o", str(temporary), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoCompiler(done.stderr.strip() or f"{compiler} failed")
    temporary.replace(output)
    return output


def main() -> int:
    try:
        print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else LIBRARY))
    except (NoCompiler, OSError) as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
