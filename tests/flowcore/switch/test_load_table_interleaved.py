"""All laws of the load table together, under any interleaving."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.load_table import ENTRY_SLOTS, SLACK, LoadTable
from tests.flowcore.switch.tables import CAPACITY_BPS, HORIZON, PATH_OF, Plan, enter, flows, plans, view


class AnyInterleaving(RuleBasedStateMachine):
    """Hosts report, ask, leave and fall silent in any order; a plain dict says which plans are in force."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LoadTable(CAPACITY_BPS, HORIZON)
        self.slot = 0
        self.plans: dict[FlowId, Plan] = {}
        self.heard: dict[FlowId, int] = {}
        self.others: dict[str, tuple[float, int]] = {}  # and when it was said

    def others_bps(self, link: str) -> float:
        return self.others.get(link, (0.0, 0))[0]

    def expected(self, link: str, slot: int) -> float:
        return sum(plan.at(slot) for flow, plan in self.plans.items() if link in PATH_OF[flow])

    @rule(flow=flows, rates_bps=plans, behind=st.integers(0, 2))
    def report(self, flow: FlowId, rates_bps: tuple[float, ...], behind: int) -> None:
        plan = Plan(self.slot - behind, rates_bps)  # the report was under way for a while
        self.table.renew(flow, PATH_OF[flow], self.slot)
        self.heard[flow] = self.slot
        fits = all(
            self.expected(link, slot) - self.plans.get(flow, Plan(0, ())).at(slot) + plan.at(slot)
            <= CAPACITY_BPS[link] * SLACK
            for link in PATH_OF[flow]
            if link in CAPACITY_BPS
            for slot in range(self.slot, self.slot + HORIZON)
            if plan.at(slot) > 0.0
        ) and all(
            self.expected(link, slot) - old + plan.at(slot) + self.others_bps(link) <= CAPACITY_BPS[link] * SLACK
            for link in PATH_OF[flow]
            if link in CAPACITY_BPS
            for slot in range(self.slot, self.slot + HORIZON)
            if plan.at(slot) > (old := self.plans.get(flow, Plan(0, ())).at(slot)) + 1e-9
        )
        assert enter(self.table, flow, plan, self.slot) == fits
        if fits:
            self.plans[flow] = plan

    @rule(flow=flows)
    def ask(self, flow: FlowId) -> None:
        self.table.renew(flow, PATH_OF[flow], self.slot)
        self.heard[flow] = self.slot
        available, _ = view(self.table, flow, self.slot)
        assert all(rate >= 0.0 for rate in available)

    @rule(flow=flows)
    def withdraw(self, flow: FlowId) -> None:
        self.table.drop(flow)
        self.plans.pop(flow, None)
        self.heard.pop(flow, None)

    @rule(link=st.sampled_from(list(CAPACITY_BPS)), others_bps=st.sampled_from([0.0, 1.0, 2.5, 8.0, 99.0]))
    def others_send(self, link: str, others_bps: float) -> None:
        self.table.set_others(link, others_bps, self.slot)
        self.others[link] = (min(others_bps, CAPACITY_BPS[link]), self.slot)

    @rule(later=st.integers(1, 2))
    def time_passes(self, later: int) -> None:
        self.slot += later

    @rule()
    def expire(self) -> None:
        self.others = {link: one for link, one in self.others.items() if self.slot - one[1] <= ENTRY_SLOTS}
        for flow in self.table.expire(self.slot):
            assert self.slot - self.heard.pop(flow) > ENTRY_SLOTS
            self.plans.pop(flow, None)

    @invariant()
    def no_slot_of_any_link_exceeds_its_capacity(self) -> None:
        for link, capacity_bps in CAPACITY_BPS.items():
            for slot in range(self.slot, self.slot + HORIZON):
                load = self.table.load_bps(link, slot)
                assert load <= capacity_bps * SLACK
                seen_bps = min(self.expected(link, slot) + self.others_bps(link), capacity_bps)
                assert load == pytest.approx(seen_bps, abs=1e-9)
                assert self.expected(link, slot) <= capacity_bps * SLACK
        assert self.table.peak_ratio <= SLACK

    @invariant()
    def nothing_is_kept_of_flows_that_are_gone(self) -> None:
        assert len(self.table) == len(self.heard)


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=40, stateful_step_count=40)
