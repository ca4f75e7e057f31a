"""The load table of a switch: what flows have promised to send over each link in the coming slots (§IV-A).

    b_l(t) = Σ_f r_f(t)  over the flows f whose path crosses l              t = absolute slot

Laws:
1. A plan replaces the flow's old plan; it never adds to it.
2. A flow never sees its own plan in its feedback.
3. b_l(t) ≤ u_l for every link and slot: a plan that would break this is refused and the table is unchanged.
4. A plan is a lease. A flow that has not been heard of for LEASE_SLOTS slots is forgotten.

Slots in the past are of no interest: loads are asked for from a slot on, and a plan ends where it ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowcore.patterns import FlowId

# Three lost reports in a row mean a dead host rather than a late one; at 60 ms slots its bandwidth is free again
# before the next iteration of anyone.
LEASE_SLOTS = 3

# Sums of floats may exceed the capacity by rounding without anybody planning too much.
SLACK = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class Plan:
    first_slot: int
    rates_bps: tuple[float, ...]

    def at(self, slot: int) -> float:
        offset = slot - self.first_slot
        return self.rates_bps[offset] if 0 <= offset < len(self.rates_bps) else 0.0


NO_PLAN = Plan(0, ())


class LoadTable:
    """K-slot loads of some links. `capacity_bps` fixes which links; others on a path belong to other tables."""

    def __init__(self, capacity_bps: Mapping[str, float], horizon: int) -> None:
        self.capacity_bps = dict(capacity_bps)
        self.horizon = horizon
        self.peak_ratio = 0.0  # the largest b_l(t)/u_l ever entered
        self._plans: dict[FlowId, Plan] = {}
        self._links: dict[FlowId, tuple[str, ...]] = {}
        self._heard: dict[FlowId, int] = {}
        self._flows_on: dict[str, dict[FlowId, None]] = {link: {} for link in capacity_bps}

    def __contains__(self, flow: FlowId) -> bool:
        return flow in self._heard

    def __len__(self) -> int:
        return len(self._heard)

    def renew(self, flow: FlowId, path: Iterable[str], slot: int) -> tuple[str, ...]:
        """Keep the flow for another lease; returns those links of its path that are in this table."""
        self._heard[flow] = slot
        links = self._links.get(flow)
        if links is None:
            links = self._links[flow] = tuple(link for link in path if link in self.capacity_bps)
            for link in links:
                self._flows_on[link][flow] = None
        return links

    def load_bps(self, link: str, slot: int, without: FlowId | None = None) -> float:
        """b_l(t), optionally as one flow sees it."""
        plans = self._plans
        return sum(
            plans[flow].at(slot) for flow in self._flows_on[link] if flow != without and flow in plans
        )

    def enter(self, flow: FlowId, plan: Plan, now_slot: int) -> bool:
        """Replace the flow's plan if the links can carry it; else change nothing and return False."""
        peak = self.peak_ratio
        for link in self._links[flow]:
            capacity = self.capacity_bps[link]
            for slot in range(max(now_slot, plan.first_slot), plan.first_slot + len(plan.rates_bps)):
                rate = plan.at(slot)
                if rate <= 0.0:
                    continue
                ratio = (self.load_bps(link, slot, without=flow) + rate) / capacity
                if ratio > SLACK:
                    return False
                peak = max(peak, ratio)
        self.peak_ratio = peak
        self._plans[flow] = plan
        return True

    def set_current(self, rates_bps: Mapping[FlowId, float], slot: int) -> None:
        """What arbitration decided for this slot, for all flows at once; later slots of each plan stay.

        The caller guarantees that the rates fit, since it divided the very same capacities; `peak_ratio` checks.
        """
        for flow, rate in rates_bps.items():
            plan = self._plans.get(flow, NO_PLAN)
            later = tuple(plan.at(slot + ahead) for ahead in range(1, self.horizon))
            self._plans[flow] = Plan(slot, (rate, *later))
        for link, flows in self._flows_on.items():
            if flows:
                self.peak_ratio = max(self.peak_ratio, self.load_bps(link, slot) / self.capacity_bps[link])

    def view(self, flow: FlowId, first_slot: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(available rate, Σ b_l/u_l) of the flow's links in this table for the horizon, without its own plan."""
        slots = range(first_slot, first_slot + self.horizon)
        available = [float("inf")] * self.horizon
        price = [0.0] * self.horizon
        plans = self._plans
        for link in self._links[flow]:
            capacity = self.capacity_bps[link]
            others = [plans[other] for other in self._flows_on[link] if other != flow and other in plans]
            for index, slot in enumerate(slots):
                load = 0.0
                for plan in others:
                    offset = slot - plan.first_slot
                    if 0 <= offset < len(plan.rates_bps):
                        load += plan.rates_bps[offset]
                price[index] += load / capacity
                if (left := capacity - load) < available[index]:
                    available[index] = left if left > 0.0 else 0.0
        return tuple(available), tuple(price)

    def drop(self, flow: FlowId) -> None:
        self._heard.pop(flow, None)
        self._plans.pop(flow, None)
        for link in self._links.pop(flow, ()):
            del self._flows_on[link][flow]

    def expire(self, slot: int) -> list[FlowId]:
        """Forget the flows whose lease has run out, and say which."""
        silent = [flow for flow, heard in self._heard.items() if slot - heard > LEASE_SLOTS]
        for flow in silent:
            self.drop(flow)
        return silent

    def links_of(self, flow: FlowId) -> tuple[str, ...]:
        """The links of this table that the flow crosses."""
        return self._links[flow]
