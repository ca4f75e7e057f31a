"""Rows as columns: a table says for each field of a row how it travels, and both directions follow from it.

A row is a NamedTuple about one flow (a claim, a grant). n rows travel as columns of n values, because packed numbers
are read in one go. The kinds of columns:

    FlowColumn      the flow of each row
    PathColumn      not on the wire: the path that the topology gives the flow
    Numbers, Flags  one number or truth value per row
    CountedNumbers, CountedFlows   any number of values per row: a column of counts, and the values in one sequence
    PerSlot         K numbers per row
    Group           columns whose values are a NamedTuple inside the row

Law: what `read` returns satisfies the bounds in the table and every row is complete; anything else raises BadMessage
before a row is built. Where some rows alone are at fault it is BadRows, and `drop` takes them out of the message.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, islice
from typing import Any, Generic, Protocol, TypeVar, cast

from paceline.flowcore.model.patterns import FlowId
from paceline.wire.flow_names import BadMessage, BadRows, FlowPaths, flow_of, text_of

# An exabyte, an exabit per second and 30 years in nanoseconds all fit below; what does not is absurd.
LARGEST = 1e18

Wire = Any  # a protobuf message; which fields it must have is what a table says
Row = TypeVar("Row", bound=tuple[Any, ...])


Flows = Sequence[FlowId]  # of the rows, one each
Paths = FlowPaths | None  # None: the table has no PathColumn


class Column(Protocol):
    """How one field of a row travels; `name` is the field's, and the column's unless the table says otherwise."""

    def write(self, name: str, values: Sequence[Any], fields: dict[str, Any]) -> None:
        """Adds what protobuf needs to `fields`."""

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[Any]:
        """One value per row."""

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        """Takes these rows out; called only where every row is complete."""


# ---- Kinds of columns ----


@dataclass(frozen=True, slots=True)
class FlowColumn:
    column: str = "flow"

    def write(self, name: str, values: Sequence[FlowId], fields: dict[str, Any]) -> None:
        fields[self.column] = map(text_of, values)

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[FlowId]:
        return flows

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        _drop(getattr(wire, self.column), rows)


class PathColumn:
    def write(self, name: str, values: Sequence[Any], fields: dict[str, Any]) -> None:
        pass

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[tuple[str, ...]]:
        assert paths is not None
        try:
            return list(map(paths.path, flows))
        except BadMessage as error:
            rows = [row for row, flow in enumerate(flows) if not _has_path(flow, paths)]
            raise BadRows(error.reason, error.detail, rows) from None

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Numbers:
    least: float = 0.0
    most: float = LARGEST
    clipped: bool = False  # a larger number is sent as `most` instead of being refused by the receiver
    default: float | None = None  # of all rows where the column is missing; older peers do not send it
    column: str = ""

    def write(self, name: str, values: Sequence[float], fields: dict[str, Any]) -> None:
        if self.clipped and max(values) > self.most:
            values = [min(value, self.most) for value in values]
        if self.default is None or values.count(self.default) < len(values):
            fields[self.column or name] = values

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Sequence[float]:
        numbers: Sequence[float] = getattr(wire, self.column or name)[:]
        if len(numbers) != len(flows):
            if self.default is None or numbers:
                raise wrong_length(self.column or name, numbers, len(flows))
            return [self.default] * len(flows)
        check_bounds(name, numbers, self.least, self.most)
        return numbers

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        _drop(getattr(wire, self.column or name), rows)


@dataclass(frozen=True, slots=True)
class Flags:
    default: bool | None = None  # as of Numbers

    def write(self, name: str, values: Sequence[bool], fields: dict[str, Any]) -> None:
        if self.default is None or values.count(self.default) < len(values):
            fields[name] = values

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Sequence[bool]:
        flags: Sequence[bool] = getattr(wire, name)[:]
        if len(flags) != len(flows):
            if self.default is None or flags:
                raise wrong_length(name, flags, len(flows))
            return [self.default] * len(flows)
        return flags

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        _drop(getattr(wire, name), rows)


@dataclass(frozen=True, slots=True)
class CountedNumbers:
    counts: str  # the column that says how many numbers each row has
    least: float = 0.0
    most: float = LARGEST

    def write(self, name: str, values: Sequence[Sequence[float]], fields: dict[str, Any]) -> None:
        fields[self.counts] = map(len, values)
        fields[name] = chain.from_iterable(values)

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[tuple[float, ...]]:
        numbers, counts = getattr(wire, name)[:], _counts(wire, self.counts, flows)
        cut = _cut(name, numbers, counts)
        try:
            check_bounds(name, numbers, self.least, self.most)
        except BadRows as error:
            owners = [row for row, count in enumerate(counts) for _ in range(count)]
            raise BadRows(error.reason, error.detail, {owners[at] for at in error.rows}) from None
        return cut

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        _drop_counted(getattr(wire, name), getattr(wire, self.counts), rows)


@dataclass(frozen=True, slots=True)
class CountedFlows:
    counts: str  # the column that says how many flows each row names

    def write(self, name: str, values: Sequence[Sequence[FlowId]], fields: dict[str, Any]) -> None:
        fields[self.counts] = map(len, values)
        fields[name] = map(text_of, chain.from_iterable(values))

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[tuple[FlowId, ...]]:
        return _cut(name, flows_of(getattr(wire, name)), _counts(wire, self.counts, flows))

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        _drop_counted(getattr(wire, name), getattr(wire, self.counts), rows)


@dataclass(frozen=True, slots=True)
class PerSlot:
    like: str  # the column whose length says what K is
    least: float = 0.0
    most: float = LARGEST

    def write(self, name: str, values: Sequence[Sequence[float]], fields: dict[str, Any]) -> None:
        fields[name] = chain.from_iterable(values)

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[tuple[float, ...]]:
        numbers, count = getattr(wire, name)[:], len(flows)
        horizon = len(getattr(wire, self.like)) // max(count, 1)
        if count and (not horizon or len(numbers) != horizon * count):
            raise BadMessage("shape", f"found {len(numbers)} entries in {name}, expected K for each of {count} flows")
        check_bounds(name, numbers, self.least, self.most)
        return _cut(name, numbers, [horizon] * count)

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        raise BadMessage("shape", f"rows with {name} are not taken apart")  # answers, which are believed whole


class Group(Generic[Row]):
    """The columns of a NamedTuple, by its fields' names."""

    def __init__(self, row: type[Row], columns: Mapping[str, Column]) -> None:
        names: tuple[str, ...] = row._fields  # type: ignore[attr-defined]  # every NamedTuple has it
        if set(columns) != set(names):
            raise TypeError(f"{row.__name__}: columns for {sorted(columns)}, expected one for each of {sorted(names)}")
        self._writers = [(name, columns[name].write) for name in names]
        self._readers = [(name, columns[name].read) for name in names]
        self._columns = [(name, columns[name]) for name in names]
        # As row(*values), without a call of Python's for each of a message's many.
        self._made = cast(Callable[[tuple[Any, ...]], Row], partial(tuple.__new__, row))

    def write(self, name: str, values: Sequence[Row], fields: dict[str, Any]) -> None:
        for (field, write), part in zip(self._writers, zip(*values, strict=True), strict=True):
            write(field, part, fields)

    def read(self, name: str, wire: Wire, flows: Flows, paths: Paths) -> Iterable[Row]:
        parts = [read(field, wire, flows, paths) for field, read in self._readers]
        return map(self._made, zip(*parts, strict=True))

    def drop(self, name: str, wire: Wire, rows: Container[int]) -> None:
        for field, column in self._columns:
            column.drop(field, wire, rows)


class Rows(Generic[Row]):
    """All rows of a message; the row's field `flow` is a FlowColumn."""

    def __init__(self, row: type[Row], *, distinct: bool = False, **columns: Column) -> None:
        """`distinct`: no two rows about the same flow."""
        flow = columns["flow"]
        assert isinstance(flow, FlowColumn)
        self._flow_column, self._distinct, self._row = flow.column, distinct, Group(row, columns)

    def write(self, rows: Sequence[Row], fields: dict[str, Any]) -> None:
        if rows:
            self._row.write("", rows, fields)

    def read(self, wire: Wire, paths: FlowPaths | None) -> tuple[Row, ...]:
        flows = flows_of(getattr(wire, self._flow_column))
        if self._distinct and len(set(flows)) != len(flows):
            raise BadMessage("flow", "a flow is named twice")
        return tuple(self._row.read("", wire, flows, paths))

    def drop(self, wire: Wire, rows: Container[int]) -> None:
        """Takes these rows out of a message of which `read` said that they are bad."""
        self._row.drop("", wire, rows)


# ---- Checks ----


def flows_of(texts: Sequence[str]) -> tuple[FlowId, ...]:
    return tuple(map(flow_of, texts[:]))  # a slice is copied at once, an iterator asked for each text


def wrong_length(name: str, column: Sequence[object], count: int) -> BadMessage:
    return BadMessage("shape", f"found {len(column)} entries in {name}, expected {count}")


def check_bounds(name: str, numbers: Sequence[float], least: float, most: float) -> None:
    """All from `least` to `most`, which NaN is not."""
    # Where none is negative, none is above the sum; min may overlook a NaN, a sum does not.
    if numbers and not (min(numbers) >= max(0.0, least) and sum(numbers) <= most):
        bad = [at for at, number in enumerate(numbers) if not least <= number <= most]
        if bad:
            said = f"found {numbers[bad[0]]} in {name}, expected {least:g} to {most:g}"
            raise BadRows("numbers", said, bad)


def _has_path(flow: FlowId, paths: FlowPaths) -> bool:
    try:
        return bool(paths.path(flow))
    except BadMessage:
        return False


def _drop(column: Any, rows: Container[int]) -> None:
    kept = [value for row, value in enumerate(column) if row not in rows]
    del column[:]
    column.extend(kept)


def _drop_counted(column: Any, counts: Any, rows: Container[int]) -> None:
    values = iter(column[:])
    cut = [list(islice(values, count)) for count in counts]
    kept = [part for row, part in enumerate(cut) if row not in rows]
    del column[:], counts[:]
    column.extend(chain.from_iterable(kept))
    counts.extend(map(len, kept))


def _counts(wire: Wire, name: str, flows: Flows) -> Sequence[int]:
    counts: Sequence[int] = getattr(wire, name)[:]
    if len(counts) != len(flows):
        raise wrong_length(name, counts, len(flows))
    return counts


def _cut(name: str, values: Sequence[Any], counts: Sequence[int]) -> Iterable[tuple[Any, ...]]:
    """The values cut into one tuple per count."""
    if sum(counts) != len(values):
        raise BadMessage("shape", f"found {len(values)} entries in {name}, expected {sum(counts)}")
    if not values:
        return [()] * len(counts)
    values, ends = tuple(values), accumulate(counts)
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]
