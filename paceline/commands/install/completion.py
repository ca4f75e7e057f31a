"""`paceline completion`: a script for bash, zsh or fish, generated from the commands themselves.

All three know, for each command (`paceline sim run`), the words that may follow it, and for each option the values that
it takes: names, or files. Which command a line is about is found word by word, past options.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from shlex import quote
from typing import Any

from paceline.commands.install.programs import parsers_of_all
from paceline.commands.install.tree import Argument, Command, tree

EXAMPLE = """example: paceline completion bash > /etc/bash_completion.d/paceline
         paceline completion zsh > /usr/local/share/zsh/site-functions/_paceline
         paceline completion fish > ~/.config/fish/completions/paceline.fish"""


def add_parser(subparsers: Any, root: argparse.ArgumentParser) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="a script that completes commands in bash, zsh or fish",
        description="Print a script that completes the words of paceline, hostd and switchd in a shell.",
        epilog=EXAMPLE,
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="for which shell")
    parser.set_defaults(run=partial(run, root))


def run(root: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    print(SHELLS[args.shell]([tree(parser) for parser in parsers_of_all(root)]), end="")
    return 0


# ---- What all three say ----


def _subcommands(programs: Sequence[Command]) -> list[str]:
    """Every command that is a word below another: "paceline sim", "paceline sim run", …"""
    return [command.name for command in _every(programs) if len(command.words) > 1]


def _words(command: Command) -> list[tuple[str, str]]:
    """What may follow, with what it is for."""
    found = [(below.words[-1], below.what) for below in command.commands]
    found += [(value, one.what) for one in command.positionals for value in one.values]
    return found + [(flag, option.what) for option in command.options for flag in option.flags]


def _takes_files(command: Command) -> bool:
    return any(one.is_file for one in command.positionals)


def _every(programs: Sequence[Command]) -> list[Command]:
    return [command for program in programs for command in program.walk()]


def _cases(entries: Sequence[tuple[str, str]], indent: str) -> str:
    """Lines of a shell's `case`."""
    return "".join(f"{indent}{quote(pattern)}) {action} ;;\n" for pattern, action in entries)


def _step_case(programs: Sequence[Command], indent: str) -> str:
    patterns = "|".join(quote(name) for name in _subcommands(programs))
    return f'{indent}{patterns}) at="$at $word" ;;\n'


def _value_cases(programs: Sequence[Command], files: str, names: Callable[[str], str], indent: str) -> str:
    """By command and option before the cursor: how its value is completed. Numbers and the like are not."""
    found = []
    for command in _every(programs):
        for option in (one for one in command.options if one.metavar):
            action = names(" ".join(option.values)) if option.values else files if option.is_file else "return"
            found += [(f"{command.name} {flag}", action) for flag in option.flags]
    return _cases(found, indent)


# ---- bash ----


def bash(programs: Sequence[Command]) -> str:
    names = " ".join(program.name for program in programs)
    values = _value_cases(programs, "files=1", lambda words: f"words={quote(words)}", " " * 8)

    def following(command: Command) -> str:
        words = " ".join(word for word, _ in _words(command))
        return f"words={quote(words)}" + "; files=1" * _takes_files(command)

    return f"""# bash completion of {names}: paceline completion bash
_paceline() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} word words= files=
    local at=${{COMP_WORDS[0]##*/}}
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [ "$word" = -- ] && return # a job's own command line
        case "$at $word" in
{_step_case(programs, " " * 12)}        esac
    done
    case "$at $previous" in
{values}        *)
            case "$at" in
{_cases([(command.name, following(command)) for command in _every(programs)], " " * 16)}            esac
            ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ -n "$files" ]; then
        local IFS=$'\\n' # names may have spaces
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o default -F _paceline {names}
"""


# ---- zsh ----


def zsh(programs: Sequence[Command]) -> str:
    names = " ".join(program.name for program in programs)
    values = _value_cases(programs, "_files; return", lambda words: f"compadd -- {words}; return", " " * 4)

    def following(command: Command) -> str:
        words = " ".join(quote(f"{word}:{what}" if what else word) for word, what in _words(command))
        return f"following=({words})" + "; _files" * _takes_files(command)

    return f"""#compdef {names}
# zsh completion of {names}: paceline completion zsh
local at=${{words[1]:t}} word
local -a following
for word in ${{words[2,CURRENT-1]}}; do
    [[ $word == -- ]] && {{ _files; return }} # a job's own command line
    case "$at $word" in
{_step_case(programs, " " * 8)}    esac
done
case "$at ${{words[CURRENT-1]}}" in
{values}esac
case "$at" in
{_cases([(command.name, following(command)) for command in _every(programs)], " " * 4)}esac
_describe word following
"""


# ---- fish ----


def fish(programs: Sequence[Command]) -> str:
    names = " ".join(program.name for program in programs)
    subcommands = " ".join(quote(name) for name in _subcommands(programs))
    lines = [line for program in programs for command in program.walk() for line in _fish_lines(program.name, command)]
    return f"""# fish completion of {names}: paceline completion fish
function __paceline_at --description 'whether the line is about this command'
    set -l words (commandline -opc)
    set -l path (basename $words[1])
    for word in $words[2..-1]
        test $word = --; and return 1
        contains -- "$path $word" {subcommands}; and set path "$path $word"
    end
    test $path = "$argv"
end
""" + "".join(f"{line}\n" for line in lines)


def _fish_lines(program: str, command: Command) -> list[str]:
    start = f"complete -c {program} -n {quote(f'__paceline_at {command.name}')}"
    files = "" if _takes_files(command) else " -f"
    lines = [f"{start}{files}"]
    for word, what in _words(command):
        if not word.startswith("-"):
            lines.append(f"{start} -a {quote(word)} -d {quote(what)}")
    for option in command.options:
        flags = "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.flags)
        lines.append(f"{start}{flags}{_fish_value(option)} -d {quote(option.what)}")
    return lines


def _fish_value(option: Argument) -> str:
    if not option.metavar:
        return ""
    if option.values:
        return f" -x -a {quote(' '.join(option.values))}"
    return " -r -F" if option.is_file else " -x"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
