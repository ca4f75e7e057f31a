"""`paceline shim`: the shim in a folder that jobs mount, whatever image they have.

DIR/VERSION/nccl_shim       a copy; a folder that is there is not touched: running jobs have its library mapped
DIR/current -> VERSION      what jobs name in their environment; changed in one step
"""

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from paceline import __version__
from paceline.commands.arguments import add_json

CURRENT = "current"
LIBRARY = "libpaceline_shim.so"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "shim",
        help="copy the shim into a folder, for jobs in containers",
        description=(
            "Copy the shim into DIR, beside other versions, and let DIR/current lead to it. Jobs need Python 3.9 or\n"
            "newer and nothing else. Prints the environment in which a job that sees DIR is observed."
        ),
        epilog="example: paceline shim /var/lib/paceline/shim",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="is made if it is not there")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json

    copy(args.directory)
    variables = environment(args.directory.absolute())
    if args.json:
        print_json({"environment": variables})
    else:
        print("\n".join(f"{name}={value}" for name, value in variables.items()))
    return 0


def copy(directory: Path) -> None:
    import nccl_shim

    target, new = directory / __version__, directory / f".{os.getpid()}"
    directory.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        source = Path(nccl_shim.__file__).parent
        shutil.copytree(source, new / "nccl_shim", ignore=shutil.ignore_patterns("__pycache__", "csrc"))
        new.chmod(0o755)
        new.rename(target)
    new.symlink_to(__version__)
    new.replace(directory / CURRENT)


def environment(directory: Path) -> dict[str, str]:
    package = directory / CURRENT / "nccl_shim"
    found = {"PYTHONPATH": str(package / "inject")}
    return found | ({"NCCL_PROFILER_PLUGIN": str(package / LIBRARY)} if (package / LIBRARY).exists() else {})
