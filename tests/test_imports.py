"""The arrows of the house: who may import whom. docs/design.md says why."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "flowcore": set(),
    "cluster": {"flowcore"},
    "nccl_shim": set(),
    "wire": {"flowcore"},
    "service": {"flowcore"},
    "hostd": {"flowcore", "wire", "service", "nccl_shim"},
    "switchd": {"flowcore", "wire", "service"},
    "sim": {"flowcore", "cluster"},
    "bench": {"flowcore", "wire", "service", "nccl_shim", "sim", "hostd", "switchd"},
    "paceline": {"flowcore", "cluster", "wire", "service", "nccl_shim", "hostd", "switchd", "sim", "bench"},
}
NOT_IN_THE_CORE = {"asyncio", "logging", "multiprocessing", "os", "random", "select", "signal", "socket"}
NOT_IN_THE_CORE |= {"subprocess", "threading", "time"}
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), "say the full name"
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    wrong = (imported(path) & MAY_IMPORT.keys()) - MAY_IMPORT[package] - {package}
    assert not wrong, f"{package} must not import {', '.join(sorted(wrong))}"
    if package == "flowcore":
        outside = imported(path) - {"flowcore", "numpy"} - (sys.stdlib_module_names - NOT_IN_THE_CORE)
        assert not outside, f"the core must not import {', '.join(sorted(outside))}"
