"""The arrows of the house: which room may import which. docs/design.md says why.

A room is a folder of modules; a name in the table stands for the folder and all below it that has no line of its own.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("paceline.flowcore", "paceline.cluster")
MAY_IMPORT: dict[str, set[str]] = {
    "paceline.flowcore": set(),
    "paceline.cluster": {"paceline.flowcore"},
    "paceline.wire": {"paceline.flowcore"},
    "paceline.service": {"paceline.flowcore"},
    "paceline.sim": {"paceline.flowcore", "paceline.cluster"},
    "nccl_shim": set(),
    "hostd": {"paceline.flowcore", "paceline.wire", "paceline.service", "nccl_shim"},
    "switchd": {"paceline.flowcore", "paceline.wire", "paceline.service"},
    "bench": {"paceline", "paceline.flowcore", "paceline.wire", "paceline.service", "paceline.sim"}
    | {"nccl_shim", "hostd", "switchd"},
    "paceline.commands": {"paceline", "paceline.flowcore", "paceline.cluster", "paceline.wire", "paceline.service"}
    | {"paceline.sim", "nccl_shim", "hostd", "switchd", "bench"},
    "paceline": {"paceline.flowcore", "paceline.commands", "nccl_shim"},
}
NOT_IN_THE_CORE = {"asyncio", "logging", "multiprocessing", "os", "random", "select", "signal", "socket"}
NOT_IN_THE_CORE |= {"subprocess", "threading", "time"}
TOP = ("paceline", "hostd", "switchd", "nccl_shim", "bench")


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for top in TOP for path in sorted((ROOT / top).rglob("*.py"))}


@cache
def imported(module: str) -> frozenset[str]:
    """What a module imports, wherever in it: in functions and for type checkers, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "say the full name"
            assert node.module
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return frozenset(found)


def room_of(module: str) -> str:
    """The longest name in the table that the module lies in."""
    return max((room for room in MAY_IMPORT if f"{module}.".startswith(f"{room}.")), key=len)


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_arrows(module: str) -> None:
    room = room_of(module)
    wrong = {room_of(name) for name in imported(module) if name in MODULES} - MAY_IMPORT[room] - {room}
    assert not wrong, f"{room} must not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("paceline.flowcore")])
def test_the_core_computes_and_does_nothing_else(module: str) -> None:
    names = {name.split(".")[0] for name in imported(module)}
    outside = names - {"paceline", "numpy"} - (sys.stdlib_module_names - NOT_IN_THE_CORE)
    assert not outside, f"the core must not import {', '.join(sorted(outside))}"
