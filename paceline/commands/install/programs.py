"""The programs that Paceline installs, by their command lines."""

import argparse


def parsers_of_all(root: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Of paceline, which is `root`, and of the daemons."""
    from hostd.__main__ import build_parser as of_hostd
    from switchd.__main__ import build_parser as of_switchd

    return [root, of_hostd(), of_switchd()]
