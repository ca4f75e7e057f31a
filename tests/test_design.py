"""docs/design.md against the code: the path of a burst names functions that exist, and counts them right; every rule is
called by the agents and by the array engine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST_FUNCTIONS, MOST_FILES = 45, 28
DEFINITION = (ast.FunctionDef, ast.ClassDef)


def path_of_a_burst() -> tuple[list[tuple[str, str]], str]:
    """(file, function) of each row, and the text."""
    text = (ROOT / "docs/design.md").read_text().split("### The path of a burst")[1].split("\n### ")[0]
    rows = re.findall(r"^\|[^|]*\| `([^`]+)` \| (`.*`) \|$", text, re.MULTILINE)
    return [(file, name) for file, names in rows for name in re.findall(r"`([^`]+)`", names)], text


def functions_in(file: str) -> Iterator[str]:
    source = (ROOT / file).read_text()
    if file.endswith(".c"):
        yield from re.findall(r"^\w[\w *]*\b(\w+)\(", source, re.MULTILINE)
        return
    for node in ast.parse(source).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        yield from (prefix + one.name for one in inner if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_function_on_the_path_of_a_burst_is_where_the_table_says() -> None:
    listed, _ = path_of_a_burst()
    assert listed
    missing = [(file, name) for file, name in listed if name not in set(functions_in(file))]
    assert not missing


def test_the_path_of_a_burst_is_counted_right_and_short() -> None:
    listed, text = path_of_a_burst()
    files = {file for file, _ in listed}
    assert len(listed) == len(set(listed)), "a function that is passed twice counts once"
    assert f"These are {len(listed)} functions in {len(files)} files" in text
    assert len(listed) <= MOST_FUNCTIONS and len(files) <= MOST_FILES


# ---- One place for every rule ----


class Rule(NamedTuple):
    what: str
    where: str
    functions: list[str]
    for_arrays: list[str]
    agents: list[str]
    array_engine: list[str]


def rules() -> list[Rule]:
    text = (ROOT / "docs/design.md").read_text().split("### One place for every rule")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|") and "`" in line]
    named = [(row[0].strip(), *(re.findall(r"`([^`]+)`", cell) for cell in row[1:])) for row in rows]
    return [Rule(what, where[0], *lists) for what, where, *lists in named]


def calls_in(file: Path) -> set[str]:
    """The names of what is called there; of a method its own name."""
    called = (node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in called}


def test_every_rule_is_called_by_the_agents_and_by_the_array_engine() -> None:
    found = rules()
    assert len(found) >= 14
    for rule in found:
        own = ROOT / "paceline/flowcore" / rule.where
        defined = {node.name for node in ast.walk(ast.parse(own.read_text())) if isinstance(node, DEFINITION)}
        assert set(rule.functions + rule.for_arrays) <= defined, rule.what
        agents = [calls_in(ROOT / "paceline/flowcore" / file) for file in rule.agents]
        engine = [calls_in(ROOT / "paceline/sim" / file) for file in rule.array_engine]
        assert set(rule.functions) <= set().union(*agents), f"the agents do without it: {rule.what}"
        both = {*rule.functions, *rule.for_arrays}
        assert both <= set().union(*engine), f"the array engine does without it: {rule.what}"
        assert all(both & calls for calls in (*agents, *engine)), f"a file that calls none of it: {rule.what}"


def test_every_rule_that_c_has_is_named_and_tested() -> None:
    text = (ROOT / "docs/design.md").read_text().split("**Rules that C has too.**")[1].split("\n- In `crowd.c`")[0]
    of_control, of_mlcc = text.split("\n- In `paceline/sim/kernel/planned/rules.c`")
    through_others = {"contends", "advance_progress"}
    for room, named, test in (("control", of_control, "test_rules"), ("planned", of_mlcc, "test_planned")):
        source = (ROOT / f"paceline/sim/kernel/{room}/rules.c").read_text()
        exported = set(functions_in(f"paceline/sim/kernel/{room}/rules.c"))
        exported -= set(re.findall(r"^static \w[\w *]*\b(\w+)\(", source, re.MULTILINE))
        assert exported == set(re.findall(r"`(\w+)`", named))
        tested = (ROOT / f"tests/sim/kernel/{test}.py").read_text()
        assert all(f'c("{name}"' in tested for name in exported - through_others)
