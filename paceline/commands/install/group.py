"""`paceline deploy`, `scenarios`, `shim`, `completion` and `man`: the commands for setting Paceline up."""

import argparse
from typing import Any

from paceline.commands.install import completion, man_pages, shim_copy, shipped


def add_parser(subparsers: Any, root: argparse.ArgumentParser) -> None:
    shipped.add_parser(subparsers)
    shim_copy.add_parser(subparsers)
    completion.add_parser(subparsers, root)
    man_pages.add_parser(subparsers, root)
