"""The commands of an argparse parser as a tree, for what is generated from it: completion and manual pages.

argparse has no public way to list its actions; the private names used here have been the same since Python 3.2.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.commands.arguments import daemon_policy_name, gated_policy_name, placement_name, policy_name

WIDTH = 78


@dataclass(frozen=True, slots=True)
class Argument:
    flags: tuple[str, ...]  # none: it is known by its place
    metavar: str  # empty: it takes no value
    what: str
    values: tuple[str, ...] = ()
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]  # paceline sim run
    what: str
    description: str
    usage: str
    epilog: str
    arguments: tuple[Argument, ...]
    commands: tuple["Command", ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @property
    def options(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.flags]

    @property
    def positionals(self) -> list[Argument]:
        return [argument for argument in self.arguments if not argument.flags]

    def walk(self) -> Iterator["Command"]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def tree(parser: argparse.ArgumentParser, words: Sequence[str] = (), what: str = "") -> Command:
    words = (*words, parser.prog.split()[-1])
    arguments, below = [], []
    for action in parser._actions:
        if action.help is argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            below = [tree(child, words, helps.get(name, "")) for name, child in action.choices.items()]
        else:
            arguments.append(_argument(parser, action))
    return Command(
        tuple(words),
        what,
        parser.description or what,
        _usage(parser),
        parser.epilog or "",
        tuple(arguments),
        tuple(below),
    )


def _usage(parser: argparse.ArgumentParser) -> str:
    """The same whatever terminal this runs in."""
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> Argument:
    formatter = parser._get_formatter()
    takes_value = action.nargs != 0
    metavar = formatter._format_args(action, formatter._get_default_metavar_for_optional(action)) if takes_value else ""
    if not action.option_strings:
        metavar = formatter._metavar_formatter(action, action.dest)(1)[0]
    return Argument(
        tuple(action.option_strings),
        metavar,
        formatter._expand_help(action) if action.help else "",
        tuple(map(str, action.choices)) if action.choices is not None else _values(action.type),
        takes_value and action.type is Path,
    )


def _values(kind: Any) -> tuple[str, ...]:
    """Names that a type of paceline/commands/arguments.py accepts."""
    from paceline.cluster.schedulers import OWN
    from paceline.flowcore.policy import FOR_DAEMONS, POLICIES
    from paceline.sim.policy_names import COMMUNICATIONS

    names = {
        policy_name: POLICIES,
        daemon_policy_name: FOR_DAEMONS,
        gated_policy_name: (*POLICIES, *COMMUNICATIONS),
        placement_name: OWN,
    }
    try:
        return tuple(names.get(kind, ()))
    except TypeError:  # not hashable
        return ()
