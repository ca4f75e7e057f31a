"""A table is the one place for a field: both directions and the checks follow from its line."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.wire.columns import Column, CountedNumbers, Flags, FlowColumn, Group, Numbers, PathColumn, PerSlot, Rows
from paceline.wire.flow_names import BadMessage

A, B = FlowId("a", "h0", "h1", Role.RING), FlowId("b", "h0", "h2", Role.RING)


class Pair(NamedTuple):
    low: float
    high: float


class Row(NamedTuple):
    flow: FlowId
    rate_bps: float
    pair: Pair
    taken: bool = False
    plan_bps: tuple[float, ...] = ()
    slots: tuple[float, ...] = (1.0,)


COLUMNS: dict[str, Column] = {
    "flow": FlowColumn(),
    "rate_bps": Numbers(most=10.0, clipped=True),
    "pair": Group(Pair, {"low": Numbers(-5.0), "high": Numbers(default=7.0)}),
    "taken": Flags(),
    "plan_bps": CountedNumbers("plan_count"),
    "slots": PerSlot(like="slots"),
}
ROWS = Rows(Row, **COLUMNS)


def sent(*rows: Row) -> SimpleNamespace:
    """What protobuf would hold: a list for every column."""
    fields: dict[str, Any] = {}
    ROWS.write(rows, fields)
    every = ("flow", "rate_bps", "low", "high", "taken", "plan_count", "plan_bps", "slots")
    return SimpleNamespace(**{name: list(fields.get(name, ())) for name in every})


def test_rows_come_back() -> None:
    rows = (Row(A, 1.0, Pair(-2.0, 3.0), True, (4.0, 5.0)), Row(B, 2.0, Pair(0.0, 0.0)))
    assert ROWS.read(sent(*rows), None) == rows
    assert ROWS.read(sent(), None) == ()


def test_too_large_a_number_is_sent_as_the_largest_where_the_table_says_so() -> None:
    [row] = ROWS.read(sent(Row(A, 99.0, Pair(0.0, 0.0))), None)
    assert row.rate_bps == 10.0


def test_a_column_at_its_default_is_not_sent() -> None:
    rows = (Row(A, 1.0, Pair(0.0, 7.0)), Row(B, 1.0, Pair(0.0, 7.0)))
    wire = sent(*rows)
    assert wire.high == []
    assert ROWS.read(wire, None) == rows
    assert sent(rows[0], Row(B, 1.0, Pair(0.0, 1.0))).high == [7.0, 1.0]


@pytest.mark.parametrize("missing", sorted(COLUMNS.keys() - {"flow"}))
def test_a_field_without_a_column_is_found_at_the_import(missing: str) -> None:
    with pytest.raises(TypeError, match=f"expected one for each of .*'{missing}'"):
        Rows(Row, **{name: column for name, column in COLUMNS.items() if name != missing})
    with pytest.raises(TypeError, match="Pair: columns for"):
        Group(Pair, {"low": Numbers(), "high": Numbers(), "more": Numbers()})


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("rate_bps", [1.0], "shape"),
        ("rate_bps", [1.0, 11.0], "numbers"),
        ("rate_bps", [float("nan"), 1.0], "numbers"),
        ("low", [-6.0, 0.0], "numbers"),
        ("high", [1.0], "shape"),
        ("taken", [True] * 3, "shape"),
        ("plan_count", [1], "shape"),
        ("plan_count", [1, 5], "shape"),
        ("plan_bps", [-1.0, 2.0], "numbers"),
        ("slots", [1.0, 2.0, 3.0], "shape"),
        ("slots", [], "shape"),
        ("flow", ["a/ring/h0>h1", "nonsense"], "flow"),
    ],
)
def test_a_wrong_column_is_refused(column: str, values: list[Any], reason: str) -> None:
    wire = sent(Row(A, 1.0, Pair(0.0, 1.0), plan_bps=(1.0,)), Row(B, 1.0, Pair(0.0, 1.0), plan_bps=(2.0,)))
    assert len(ROWS.read(wire, None)) == 2
    setattr(wire, column, values)
    with pytest.raises(BadMessage) as refused:
        ROWS.read(wire, None)
    assert refused.value.reason == reason
    assert column == "flow" or column in str(refused.value) or column == "plan_count"


def test_distinct_rows() -> None:
    class Named(NamedTuple):
        flow: FlowId

    wire = SimpleNamespace(flow=[str(A), str(A)])
    assert len(Rows(Named, flow=FlowColumn()).read(wire, None)) == 2
    with pytest.raises(BadMessage, match="named twice"):
        Rows(Named, distinct=True, flow=FlowColumn()).read(wire, None)


def test_a_path_is_not_on_the_wire() -> None:
    fields: dict[str, Any] = {}
    PathColumn().write("path", [("a->b",)], fields)
    assert fields == {}
