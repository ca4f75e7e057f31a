"""A daemon's command line: a mistake in it is reported in one line, and the exit status is 2."""

import argparse
from typing import Any, NoReturn

from paceline import __version__
from paceline.service.lifecycle import BAD_INPUT


class DaemonParser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_argument("--version", action="version", version=f"%(prog)s {__version__}")

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see: {self.prog} --help)\n")
