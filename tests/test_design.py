"""docs/design.md against the code: the path of a burst names functions that exist, and counts them right."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_FUNCTIONS, MOST_FILES = 45, 28


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
