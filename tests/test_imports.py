"""The arrows of the house: which room may import which. docs/design.md says why.

A room is a folder or a module. A name on the left stands for what lies in it and has no line of its own. A name on the
right stands for all that lies in it; with a dot at its end, only for what has no line of its own.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = ("paceline", "hostd", "switchd", "nccl_shim", "bench")
CORE = "paceline.flowcore"
MAY_IMPORT = {
    "paceline.flowcore.model": "",
    "paceline.flowcore.messages": "paceline.flowcore.model",
    "paceline.flowcore.allocation": "paceline.flowcore.model paceline.flowcore.messages",
    "paceline.flowcore.detect": "paceline.flowcore.model paceline.flowcore.messages",
    "paceline.flowcore.demand": "paceline.flowcore.model paceline.flowcore.messages paceline.flowcore.detect",
    "paceline.flowcore.switch": "paceline.flowcore.model paceline.flowcore.messages paceline.flowcore.allocation"
    " paceline.flowcore.detect",
    "paceline.flowcore.host": "paceline.flowcore.model paceline.flowcore.messages paceline.flowcore.allocation"
    " paceline.flowcore.detect paceline.flowcore.switch",
    "paceline.flowcore.policy": "paceline.flowcore.model paceline.flowcore.messages paceline.flowcore.allocation"
    " paceline.flowcore.host",
    "paceline.flowcore": "",
    "paceline.cluster": CORE,
    "paceline.wire": CORE,
    "paceline.service": f"{CORE} paceline.",  # the version
    "paceline.service.handshakes": f"{CORE} paceline.service",
    "paceline.failure": "",
    "paceline.memory": "",
    # Engines know the jobs and parameters that lie beside them; what chooses an engine lies above.
    "paceline.sim": f"{CORE} paceline.cluster",
    "paceline.sim.reference": f"{CORE} paceline.sim",
    "paceline.sim.kernel": f"{CORE} paceline.sim.parameters",
    "paceline.sim.array": f"{CORE} paceline.cluster paceline.sim",
    # Histories run what switchd has of pure rules, its routes and checks, instead of a copy.
    "paceline.sim.lies": f"{CORE} paceline.sim paceline.sim.reference paceline.sim.run paceline.wire",
    "paceline.sim.faults": f"{CORE} paceline.sim paceline.sim.reference paceline.sim.lies paceline.wire switchd",
    "paceline.sim.run": f"{CORE} paceline.sim paceline.sim.reference paceline.sim.array",
    "paceline.sim.agreement": f"{CORE} paceline.sim paceline.sim.reference paceline.sim.array paceline.sim.run",
    "paceline.sim.compare": f"{CORE} paceline.sim paceline.sim.run",
    "paceline.sim.trace.profiles": "paceline.flowcore.model",
    "paceline.sim.trace.formats": "paceline.flowcore.model paceline.sim paceline.sim.trace.profiles",
    "paceline.sim.trace": f"{CORE} paceline.cluster paceline.sim paceline.sim.array paceline.sim.trace.profiles"
    " paceline.sim.trace.formats",
    "paceline.sim.eq5": "paceline.flowcore.allocation paceline.cluster",
    "paceline.sim.papers": f"{CORE} paceline.cluster paceline.sim paceline.sim.run paceline.sim.eq5 paceline.sim.trace",
    "paceline.sim.report": f"{CORE} paceline.sim paceline.sim.run paceline.sim.trace",
    "paceline.whatif": f"{CORE} paceline.sim paceline.sim.run paceline.sim.array",
    "nccl_shim.build": "",
    "nccl_shim.segment": "nccl_shim.build paceline.flowcore.detect",
    "nccl_shim.page": "nccl_shim.segment",
    "nccl_shim.ps": "nccl_shim.segment nccl_shim.page",
    "nccl_shim.hooks": "nccl_shim.segment nccl_shim.page nccl_shim.ps",
    "nccl_shim.inject": "nccl_shim.hooks",
    "nccl_shim": "nccl_shim.segment nccl_shim.build",
    "hostd.congestion": "",
    "hostd.kernel": f"{CORE} nccl_shim.segment hostd.congestion.storage",
    "hostd.workers": "hostd.kernel",
    "hostd.safety": f"{CORE} paceline.service hostd.kernel hostd.workers",
    "hostd.registration": "nccl_shim.segment hostd.workers",
    "hostd.pages": "paceline.service nccl_shim.segment nccl_shim.page hostd.registration",
    "hostd.monitor": f"{CORE} paceline.service nccl_shim.segment hostd.kernel hostd.registration",
    "hostd.enforce": f"{CORE} paceline.service nccl_shim.page hostd.kernel hostd.congestion hostd.safety hostd.pages",
    "hostd.introspect": f"{CORE} paceline.service nccl_shim.segment hostd.kernel hostd.monitor hostd.enforce",
    "hostd.history": f"{CORE} hostd.introspect",
    "hostd": f"{CORE} paceline. paceline.service paceline.wire hostd.kernel hostd.workers hostd.safety hostd.monitor"
    " hostd.registration hostd.enforce hostd.introspect hostd.history",
    "switchd": f"{CORE} paceline.service paceline.wire",
    "bench": "paceline.failure",
    "bench.testbed": f"{CORE} paceline.failure bench.",
    "bench.mltcp": f"{CORE} nccl_shim.segment hostd.kernel hostd.congestion",
    "bench.workload": f"{CORE} paceline.failure paceline.sim nccl_shim bench.",
    "bench.gpu": f"{CORE} paceline.failure paceline.commands.provenance nccl_shim bench.testbed bench.jobs",
    "bench.jobs": f"{CORE} paceline.failure paceline.sim nccl_shim hostd bench. bench.testbed bench.workload"
    " bench.mltcp",
    "bench.micro": f"{CORE} paceline.failure paceline.memory paceline.service paceline.sim paceline.wire hostd bench."
    " bench.testbed bench.jobs",
    "bench.report": "paceline.sim paceline.failure",
    "bench.chaos": f"{CORE} paceline.failure nccl_shim hostd bench. bench.testbed bench.jobs",
    "bench.web": f"{CORE} paceline.failure bench. bench.testbed bench.jobs",
    "bench.fuzz": f"{CORE} paceline.wire nccl_shim hostd switchd",
    "bench.experiments.experiment": f"{CORE} bench.jobs bench.report",
    "bench.experiments.paper_jobs": f"{CORE} bench.jobs.shared_cluster",
    "bench.experiments": f"{CORE} paceline.failure paceline.sim bench.testbed bench.workload bench.jobs bench.micro"
    " bench.report bench.experiments.experiment bench.experiments.paper_jobs",
    "bench.experiments.acceptance.any_transport": f"{CORE} paceline.failure paceline.commands.provenance nccl_shim"
    " bench.testbed bench.jobs bench.experiments",
    "bench.experiments.whatif": f"{CORE} paceline.whatif hostd bench.testbed bench.jobs",
    "bench.report.page": "paceline.failure bench.report bench.experiments",
    "paceline.web": f"{CORE} paceline. paceline.service paceline.wire",
    "paceline.commands.view": f"{CORE} paceline.cluster paceline.sim paceline.wire",
    "paceline.commands": f"{CORE} paceline.cluster paceline.wire paceline.service paceline.sim paceline.failure"
    " paceline. paceline.commands.view hostd switchd nccl_shim.segment",
    "paceline.commands.watch": f"{CORE} paceline.service paceline.wire paceline.web paceline.commands hostd switchd",
    "paceline.commands.install": f"{CORE} paceline.cluster paceline.sim paceline.commands paceline. hostd switchd"
    " nccl_shim",
    "paceline.commands.whatif": f"{CORE} paceline.whatif hostd paceline.commands",
    "paceline.commands.whatif.bench": "paceline.sim paceline.commands bench",
    "paceline.commands.sim": f"{CORE} paceline.sim paceline.memory paceline.commands",
    "paceline.commands.bench.kernel": "paceline.commands bench hostd.congestion",
    "paceline.commands.bench": "paceline.sim paceline.failure paceline.commands bench",
    "paceline.commands.demo": f"{CORE} paceline.sim paceline.commands bench",
    "paceline.cli": f"{CORE} paceline.failure paceline.commands nccl_shim paceline.",
    "paceline.__main__": "paceline.cli",
    "paceline": "",  # the version
}
NOT_IN_THE_CORE = {"asyncio", "logging", "multiprocessing", "os", "random", "select", "signal", "socket"}
NOT_IN_THE_CORE |= {"subprocess", "threading", "time"}


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


def lies_in(name: str, room: str) -> bool:
    return f"{name}.".startswith(f"{room}.")


def room_of(module: str) -> str:
    """The longest name in the table that the module lies in."""
    return max((room for room in MAY_IMPORT if lies_in(module, room)), key=len)


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_arrows(module: str) -> None:
    room = room_of(module)
    allowed = MAY_IMPORT[room].split()
    ours = {name for name in imported(module) if name in MODULES and room_of(name) != room}
    wrong = {name for name in ours if not any(_stands_for(one, name) for one in allowed)}
    assert not wrong, f"{room} must not import {', '.join(sorted(wrong))}"


def _stands_for(allowed: str, name: str) -> bool:
    return room_of(name) == allowed[:-1] if allowed.endswith(".") else lies_in(name, allowed)


def test_imports_between_rooms_go_one_way() -> None:
    """A room lies above every room that it imports."""
    arrows: dict[str, set[str]] = {room: set() for room in MAY_IMPORT}
    for module in MODULES:
        arrows[room_of(module)] |= {room_of(name) for name in imported(module) if name in MODULES} - {room_of(module)}
    assert list(circles(arrows)) == []


@pytest.mark.parametrize("module", [name for name in MODULES if lies_in(name, CORE)])
def test_the_core_computes_and_does_nothing_else(module: str) -> None:
    names = {name.split(".")[0] for name in imported(module)}
    outside = names - {"paceline", "numpy"} - (sys.stdlib_module_names - NOT_IN_THE_CORE)
    assert not outside, f"the core must not import {', '.join(sorted(outside))}"


def circles(arrows: dict[str, set[str]]) -> Iterator[list[str]]:
    """Ways from a node back to itself, by depth-first search."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> Iterator[list[str]]:
        if node in path:
            yield [*path[path.index(node) :], node]
        elif node not in done:
            for following in sorted(arrows[node]):
                yield from visit(following, [*path, node])
            done.add(node)

    for node in arrows:
        yield from visit(node, [])


def test_no_import_goes_in_a_circle() -> None:
    arrows = {module: set(imported(module) & MODULES.keys()) for module in MODULES}
    assert [" → ".join(circle) for circle in circles(arrows)] == []
