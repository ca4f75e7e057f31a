"""Slurm's topology.conf, of topology/tree or topology/block:

    SwitchName=s0 Nodes=tux[0-5]
    SwitchName=s1 Nodes=gpu-[001-004],gpu-010
    SwitchName=s2 Switches=s[0-1]
    BlockName=b0 Nodes=...

It knows no rates (LinkSpeed has no unit, and Slurm does not read it), and addresses only as the nodes' names.
"""

import re

from paceline.commands.arguments import CommandError
from paceline.commands.topology.found import FoundCluster, FoundNic, FoundSwitch, need_gbps

MOST_NAMES = 100_000
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def read(text: str, source: str, gbps: float | None) -> FoundCluster:
    found = FoundCluster()
    for number, line in _lines(text):
        where = f"{source}: line {number}"
        words = dict(_pair(word, where) for word in line.split())
        name = words.get("switchname") or words.get("blockname")
        if name is None:
            if words.keys() <= {"blocksizes"}:
                continue
            raise CommandError(f"{where}: found {line[:40]!r}, expected SwitchName=… or BlockName=…")
        found.switches.setdefault(name, FoundSwitch())
        for child in expanded(words.get("switches", ""), where):
            found.switches.setdefault(child, FoundSwitch()).parents.append(name)
        for host in expanded(words.get("nodes", ""), where):
            found.add_nic(host, FoundNic(name, need_gbps(gbps, source), [host]))
    if not found.hosts:
        raise CommandError(f"{source}: found no node, expected lines such as SwitchName=s0 Nodes=tux[0-5]")
    return found


def _lines(text: str) -> list[tuple[int, str]]:
    """Without comments and empty ones; a backslash at its end joins a line with the next."""
    joined: list[tuple[int, str]] = []
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = before + line.partition("#")[0].strip()
        before = bare[:-1] if bare.endswith("\\") else ""
        if bare and not before:
            joined.append((number, bare))
    return joined


def _pair(word: str, where: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise CommandError(f"{where}: found {word[:40]!r}, expected KEY=VALUE")
    return key.lower(), value


def expanded(text: str, where: str) -> list[str]:
    """The names of a list such as gpu-[001-003,7],login."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+|[\[\]]", text):
        some = [""]
        for piece in re.split(r"(\[[^\[\]]*\])", part):
            ends = _numbers(piece[1:-1], where) if piece.startswith("[") and piece.endswith("]") else [piece]
            if len(some) * len(ends) > MOST_NAMES:
                raise CommandError(f"{where}: found {part[:40]!r}, expected at most {MOST_NAMES} names")
            some = [begin + end for begin in some for end in ends]
        if any("[" in name or "]" in name for name in some):
            raise CommandError(f"{where}: found {text[:40]!r}, expected names such as tux[0-5]")
        names += some
    return names


def _numbers(text: str, where: str) -> list[str]:
    """0-2,7 or 001-003, which keep their zeros."""
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not found or last < first or last - first >= MOST_NAMES:
            raise CommandError(f"{where}: found [{text[:40]}], expected numbers such as [0-5,8]")
        numbers += [f"{number:0{len(found[1])}d}" for number in range(first, last + 1)]
    return numbers
