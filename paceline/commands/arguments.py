"""Arguments of commands: errors in one line, and types that say what they expected."""

import argparse
import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

LARGEST_SEED = 2**63 - 1  # as in a scenario file
DEFAULT_POLICIES = "fair,mltcp,fifo,srpt,crux,mlcc,paceline"


class CommandError(Exception):
    """The command cannot do what was asked; str() is the line that is printed."""


class Parser(argparse.ArgumentParser):
    """Examples in the epilog keep their line breaks, and options are not guessed from their first letters."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see: {self.prog} --help)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def integer(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected an integer from {least} to {most}")
        return number

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # false for NaN
            raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from {least:g} to {most:g}")
        return value

    return read


seed = integer(0, LARGEST_SEED)


def policy_name(text: str) -> str:
    from paceline.flowcore.policy import POLICIES

    return _with_options(text, tuple(POLICIES))


def daemon_policy_name(text: str) -> str:
    from paceline.flowcore.policy import FOR_DAEMONS

    return _one_of(FOR_DAEMONS, text)


def _one_of(policies: Sequence[str], text: str) -> str:
    if text in policies:
        return text
    close = get_close_matches(text, policies, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(policies)}"
    raise argparse.ArgumentTypeError(f"no policy {text!r}; {hint}")


def _with_options(text: str, policies: Sequence[str]) -> str:
    """A policy, and after colons what is chosen of its options."""
    from paceline.flowcore.policy import policy_named

    _one_of(policies, text.partition(":")[0])
    if ":" in text:
        try:
            policy_named(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def gated_policy_name(text: str) -> str:
    """A flow policy, or one together with what holds jobs back, such as fair+cassini."""
    from paceline.flowcore.policy import POLICIES
    from paceline.sim.policy_names import COMMUNICATIONS, POLICY_NAMES

    if text in POLICY_NAMES:
        return text
    if "+" not in text:
        return _with_options(text, (*POLICIES, *COMMUNICATIONS))
    known = f"expected a flow policy, a plus and one of {', '.join(COMMUNICATIONS)}"
    raise argparse.ArgumentTypeError(f"no policy {text!r}; {known}")


def policy_names(text: str) -> list[str]:
    """Comma-separated, each once."""
    return list(dict.fromkeys(policy_name(name.strip()) for name in text.split(",")))


def placement_name(text: str) -> str:
    from paceline.cluster.schedulers import NAMES, OWN

    if text in NAMES:
        return text
    known = f"expected one of {', '.join(OWN)}, or one of them with +cassini"
    raise argparse.ArgumentTypeError(f"no placement {text!r}; {known}")
