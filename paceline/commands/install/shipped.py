"""`paceline deploy` and `paceline scenarios`: files for operators that come with Paceline, wherever it was installed.

A wheel has them inside the package, a checkout at its top.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import paceline
from paceline.commands.arguments import CommandError, add_json

PACKAGE = Path(paceline.__file__).parent
COMMENTS = ("# ", "-- ")


def add_parser(subparsers: Any) -> None:
    _add(
        subparsers,
        "deploy",
        "units, configurations, dashboard, alerts and manifests to install",
        "paceline deploy\n"
        "         paceline deploy hostd.service > /etc/systemd/system/hostd.service\n"
        "         paceline deploy --to paceline-files",
    )
    _add(
        subparsers,
        "scenarios",
        "scenarios that come with Paceline, for `paceline sim run`",
        "paceline scenarios --to scenarios\n         paceline sim run scenarios/two-jobs.toml --policy paceline",
    )


def _add(subparsers: Any, name: str, what: str, example: str) -> None:
    parser = subparsers.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}: lists them, prints one, or copies them.",
        epilog=f"example: {example}",
    )
    parser.add_argument("file", metavar="FILE", nargs="*", help="as the list names it (default: all)")
    parser.add_argument("--to", metavar="DIR", type=Path, help="copy them there; no file that differs is overwritten")
    add_json(parser)
    parser.set_defaults(run=partial(run, name))


def folder(name: str) -> Path:
    inside = PACKAGE / "share" / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def files_in(top: Path) -> dict[str, Path]:
    """By their paths within it."""
    found = {str(path.relative_to(top)): path for path in sorted(top.rglob("*")) if path.is_file()}
    if not found:
        raise CommandError(f"{top}: not there; this installation of Paceline is not whole")
    return found


def purpose(path: Path) -> str:
    """Its first comment."""
    for line in path.read_text(encoding="utf-8").splitlines()[:2]:
        for mark in COMMENTS:
            if line.startswith(mark):
                return line.removeprefix(mark)
    return ""


def run(name: str, args: argparse.Namespace) -> int:
    every = files_in(folder(name))
    unknown = [file for file in args.file if file not in every]
    if unknown:
        raise CommandError(f"{name}: no file {unknown[0]!r}; `paceline {name}` lists them")
    chosen = {file: every[file] for file in args.file or every}
    if args.to is not None:
        return _copy(chosen, args.to, args.json)
    if args.file and not args.json:
        for path in chosen.values():
            sys.stdout.write(path.read_text(encoding="utf-8"))
        return 0
    return _list(name, chosen, args.json)


def _list(name: str, chosen: dict[str, Path], as_json: bool) -> int:
    from paceline.commands.console import print_json

    rows = [{"file": file, "purpose": purpose(path), "path": str(path)} for file, path in chosen.items()]
    if as_json:
        print_json({"folder": str(folder(name)), "files": rows})
        return 0
    width = max(len(row["file"]) for row in rows)
    for row in rows:
        print(f"{row['file']:<{width}}  {row['purpose']}".rstrip())
    return 0


def _copy(chosen: dict[str, Path], to: Path, as_json: bool) -> int:
    from paceline.commands.console import print_json

    targets = {to / file: source.read_bytes() for file, source in chosen.items()}
    for target, content in targets.items():
        if target.exists() and target.read_bytes() != content:
            raise CommandError(f"{target}: is there already, and differs; nothing was copied")
    for (target, content), source in zip(targets.items(), chosen.values(), strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    if as_json:
        print_json({"copied": [str(target) for target in targets]})
    else:
        print("\n".join(map(str, targets)))
    return 0
