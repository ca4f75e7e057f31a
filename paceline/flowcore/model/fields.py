"""Reading typed values out of a TOML file: what was found at a key, or one line saying what was expected.

The format of a file is described by tables, `{key: Field(reader, default)}`. A reader turns a Value (what was found
at a key) into what it stands for, or raises that value's `wrong(expected)`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar


class InputError(ValueError):
    """The file is wrong; str() says where and why in one printable line."""

    def __init__(self, source: str, key: str, found: str, expected: str) -> None:
        super().__init__(source, key, found, expected)
        self.source, self.key, self.found, self.expected = source, key, found, expected

    def __str__(self) -> str:
        return printable(f"{self.source}: {self.key}: found {self.found}, expected {self.expected}")


def printable(text: str) -> str:
    """Some of these characters come from a file or a peer; a newline or a terminal escape must not come through."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


T = TypeVar("T")
MISSING = object()


@dataclass(frozen=True, slots=True)
class Value:
    """What stands at a key of a file, or that nothing does."""

    source: str
    key: str  # such as job[1].workers[0]; empty for the whole file
    found: object

    @property
    def missing(self) -> bool:
        return self.found is MISSING

    def wrong(self, expected: str) -> InputError:
        return InputError(self.source, self.key or "the file", _shown(self.found), expected)

    def table(self) -> dict[str, object]:
        if not isinstance(self.found, dict):
            raise self.wrong(f"a table of keys for {self.key}")
        return self.found

    def at(self, key: str) -> "Value":
        """The value at a key of this table."""
        return Value(self.source, f"{self.key}.{key}" if self.key else key, self.table().get(key, MISSING))

    def items(self) -> "list[Value]":
        """The values of this list; what is not a list has none."""
        found = self.found if isinstance(self.found, list) else []
        return [Value(self.source, f"{self.key}[{number}]", item) for number, item in enumerate(found)]


Reader = Callable[[Value], T]


@dataclass(frozen=True, slots=True)
class Field:
    """How to read the value at a key; without a default the key is required."""

    reader: Reader[object]
    default: object = MISSING

    def read(self, value: Value) -> object:
        if value.missing and self.default is not MISSING:
            return self.default
        return self.reader(value)


def read_table(table: Value, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Every field of a table. Unknown keys are refused first: a slip of the pen leaves a key missing too."""
    for key in table.table():
        if key not in fields:
            near = get_close_matches(key[:_SHOWN_CHARS], fields, n=1)
            known = f"{near[0]!r}, the nearest known key" if near else f"one of {', '.join(fields)}"
            where = table.at(key[:_SHOWN_CHARS]).key
            raise InputError(table.source, where, "an unknown key", known)
    return {key: field.read(table.at(key)) for key, field in fields.items()}


_SHOWN_CHARS = 40


def _shown(found: object) -> str:
    """One short phrase for anything TOML can hold."""
    match found:
        case dict():
            return "a table"
        case list():
            return f"a list of {len(found)}"
        case bool():
            return str(found).lower()
        case int() if abs(found) > 10**_SHOWN_CHARS:
            return "a huge integer"  # hexadecimal may be of any length, and repr() refuses over 4300 digits
        case _ if found is MISSING:
            return "nothing"
    shown = repr(found)
    return shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "…"


def number_that(expected: str, holds: Callable[[float], bool]) -> Reader[float]:
    """An integer or a float, never a bool. NaN fails every comparison, so `holds` needs no case for it."""

    def read(value: Value) -> float:
        # Compared before conversion: an integer too large for a float must fail, not overflow.
        if isinstance(value.found, int | float) and not isinstance(value.found, bool) and holds(value.found):
            return float(value.found)
        raise value.wrong(expected)

    return read


def number_from(least: float, most: float) -> Reader[float]:
    return number_that(f"a number from {least:g} to {most:g}", lambda number: least <= number <= most)


def integer(least: int, most: int) -> Reader[int]:
    def read(value: Value) -> int:
        if type(value.found) is int and least <= value.found <= most:
            return value.found
        raise value.wrong(f"a whole number from {least} to {most}")

    return read


def one_of(*names: str) -> Reader[str]:
    def read(value: Value) -> str:
        if isinstance(value.found, str) and value.found in names:
            return value.found
        raise value.wrong(" or ".join(f'"{name}"' for name in names))

    return read


def list_of(
    reader: Reader[T], what: str, *, exactly: int | None = None, distinct: bool = False
) -> Reader[tuple[T, ...]]:
    def read(value: Value) -> tuple[T, ...]:
        items = value.items()
        if not isinstance(value.found, list) or exactly not in (None, len(items)):
            raise value.wrong(f"a list of {what}" if exactly is None else f"a list of {exactly} {what}")
        read_items = tuple(reader(item) for item in items)
        if distinct:
            refuse_repeats(items, f"{what} that differ")
        return read_items

    return read


def refuse_repeats(values: Iterable[Value], expected: str) -> None:
    seen: set[object] = set()
    for value in values:
        if value.found in seen:
            raise value.wrong(expected)
        seen.add(value.found)


def printable_name(value: Value) -> str:
    """Names end up in tables, file names and terminals, so they are short and printable."""
    found = value.found
    if isinstance(found, str) and found.strip() and found.isprintable() and len(found) <= 100:
        return found
    raise value.wrong("a name of 1 to 100 printable characters")
