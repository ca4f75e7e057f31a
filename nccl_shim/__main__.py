"""`python -m nccl_shim run|jobs …`: the two commands without the rest of Paceline."""

import argparse
import sys

from nccl_shim import __version__, commands


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m nccl_shim", description=__doc__)
    parser.add_argument("--version", action="version", version=f"nccl_shim {__version__}")
    commands.add_parser(parser.add_subparsers(dest="name", required=True, metavar="COMMAND"))
    args = parser.parse_args()
    status: int = args.run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
