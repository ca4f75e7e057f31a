"""A load table of four links, flows over them, and plans to draw."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.load_table import LoadTable, Rates

HORIZON = 4
CAPACITY_BPS = {"h0->sw": 10.0, "h1->sw": 10.0, "sw->h0": 7.0, "sw->h1": 3.0}
PATHS = (
    ("h0->sw", "sw->h1"),
    ("h0->sw", "sw->h0"),
    ("h1->sw", "sw->h0"),
    ("h1->sw", "sw->h1"),
    ("h0->sw", "sw->h2"),  # its last link belongs to another table
    ("h1->sw",),
)
FLOWS = tuple(FlowId(f"job{number}", "h0", "h1", Role.RING) for number in range(len(PATHS)))
PATH_OF = dict(zip(FLOWS, PATHS, strict=True))

rates = st.one_of(st.just(0.0), st.sampled_from([1.0, 3.0, 7.0, 10.0]), st.floats(0.0, 12.0))
plans = st.lists(rates, min_size=1, max_size=HORIZON).map(tuple)
flows = st.sampled_from(FLOWS)


@dataclass(frozen=True)
class Plan:
    first_slot: int
    rates_bps: Rates

    def at(self, slot: int) -> float:
        offset = slot - self.first_slot
        return self.rates_bps[offset] if 0 <= offset < len(self.rates_bps) else 0.0


def enter(table: LoadTable, flow: FlowId, plan: Plan, now_slot: int) -> bool:
    return table.enter({flow: plan.rates_bps}, plan.first_slot, now_slot)[flow]


def view(table: LoadTable, flow: FlowId, first_slot: int) -> tuple[Rates, Rates]:
    (seen,) = table.view([flow], first_slot)
    return seen


def make_table(*entered: tuple[FlowId, tuple[float, ...]]) -> LoadTable:
    table = LoadTable(CAPACITY_BPS, HORIZON)
    for flow, rates_bps in entered:
        table.renew(flow, PATH_OF[flow], 0)
        assert enter(table, flow, Plan(0, rates_bps), 0)
    return table


def loads(table: LoadTable, first_slot: int = 0) -> dict[str, list[float]]:
    slots = range(first_slot, first_slot + 2 * HORIZON)
    return {link: [table.load_bps(link, slot) for slot in slots] for link in CAPACITY_BPS}


def assert_same_loads(table: LoadTable, expected: dict[str, list[float]]) -> None:
    for link, column in loads(table).items():
        assert column == pytest.approx(expected[link], abs=1e-9)
