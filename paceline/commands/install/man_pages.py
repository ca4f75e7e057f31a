"""`paceline man`: manual pages from the help: paceline.1, a page for each of its commands, hostd.8 and switchd.8."""

import argparse
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from paceline import __version__
from paceline.commands.install.programs import parsers_of_all
from paceline.commands.install.tree import Argument, Command, tree


def add_parser(subparsers: Any, root: argparse.ArgumentParser) -> None:
    parser = subparsers.add_parser(
        "man",
        help="write the manual pages",
        description="Write the manual pages of paceline, its commands, hostd and switchd.",
        epilog="example: paceline man /usr/local/share/man",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="man1 and man8 are made in it")
    parser.set_defaults(run=partial(run, root))


def run(root: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    for path in write(parsers_of_all(root), args.directory):
        print(path)
    return 0


def pages(parsers: Sequence[argparse.ArgumentParser]) -> dict[str, str]:
    """By file: man1/paceline-sim.1, …"""
    found = {}
    for program in map(tree, parsers):
        section = 1 if program.commands else 8
        every = [program, *program.commands]
        for command in every:
            also = [other for other in every if other is not command] if command is program else [program]
            name = "-".join(command.words)
            found[f"man{section}/{name}.{section}"] = page(command, section, also)
    return found


def page(command: Command, section: int, also: Sequence[Command]) -> str:
    name = "-".join(command.words)
    manual = "User Commands" if section == 1 else "System Administration"
    lines = [f'.TH "{name.upper()}" {section} "" "paceline {__version__}" "{manual}"', ".nh", ".ad l"]
    lines += [".SH NAME", f"{_text(name)} \\- {_text(command.what or command.description.splitlines()[0])}"]
    lines += [".SH SYNOPSIS", *_verbatim(command.usage), ".SH DESCRIPTION", _text(command.description)]
    if len(command.words) == 1 and command.commands:  # they have pages of their own
        lines += [".SH COMMANDS", *(line for below in command.commands for line in _item(below.name, below.what))]
        lines += list(_arguments(command, ".SH OPTIONS"))
    else:
        lines += list(_arguments(command, ".SH ARGUMENTS"))
        for below in (one for one in command.walk() if one is not command):
            lines += [f".SH {_text(below.name.upper())}", _text(below.description), ".PP", *_verbatim(below.usage)]
            lines += [*_arguments(below, ""), *_verbatim(below.epilog)]
    lines += [".SH EXAMPLES", *_verbatim(re.sub(r"^examples?:\s*", "", command.epilog))] if command.epilog else []
    references = ", ".join(f"\\fB{_text('-'.join(one.words))}\\fR({section})" for one in also)
    return "\n".join([*lines, *([".SH SEE ALSO", references] if references else [])]) + "\n"


def _arguments(command: Command, heading: str) -> Iterator[str]:
    if command.arguments and heading:
        yield heading
    for one in command.arguments:
        yield from _item(_spelling(one), one.what)


def _spelling(one: Argument) -> str:
    names = ", ".join(one.flags)
    return f"{names} {one.metavar}".strip()


def _item(term: str, what: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{_text(term)}\\fR", _text(what or "\\&"))


def _verbatim(text: str) -> Iterator[str]:
    if text:
        yield from (".PP", ".nf", *map(_text, text.splitlines()), ".fi")


def _text(text: str) -> str:
    """A line that begins with a dot or a quote would be a request to roff, and a plain minus a hyphen."""
    if text == "\\&":
        return text
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


def write(parsers: Sequence[argparse.ArgumentParser], directory: Path) -> list[Path]:
    written = []
    for name, text in pages(parsers).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
