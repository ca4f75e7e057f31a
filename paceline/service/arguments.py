"""A daemon's command line: a mistake in it is reported in one line, and the exit status is 2."""

import argparse
from typing import NoReturn

from paceline.service.lifecycle import BAD_INPUT


class DaemonParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see: {self.prog} --help)\n")
