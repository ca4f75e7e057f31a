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
from flowcore.units import UNLIMITED

# Three lost reports in a row mean a dead host rather than a late one; at 60 ms slots its bandwidth is free again
# before the next iteration of anyone.
LEASE_SLOTS = 3

# Sums of floats may exceed the capacity by rounding without anybody planning too much.
SLACK = 1.0 + 1e-9

# And a sum whose parts have all been taken out again may leave this much, which must not make an empty slot look
# dearer than another.
DUST_BPS = 1e-3


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
        self._load_bps: dict[str, dict[int, float]] = {link: {} for link in capacity_bps}  # b_l(t) by slot

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
        return links

    def load_bps(self, link: str, slot: int, without: FlowId | None = None) -> float:
        """b_l(t), optionally as one flow sees it."""
        load_bps = self._load_bps[link].get(slot, 0.0)
        return load_bps - self._plans[without].at(slot) if without in self._plans else load_bps

    def flows_per_link(self) -> dict[str, int]:
        """How many flows have a lease on each link that has any."""
        counts: dict[str, int] = {}
        for links in self._links.values():
            for link in links:
                counts[link] = counts.get(link, 0) + 1
        return counts

    def enter(self, flow: FlowId, plan: Plan, now_slot: int) -> bool:
        """Replace the flow's plan if the links can carry it; else change nothing and return False.

        A plan that makes no sense, from a peer that does not know better, is refused like one that does not fit.
        """
        if not self._plausible(plan, now_slot):
            return False
        peak = self.peak_ratio
        slots = range(max(now_slot, plan.first_slot), plan.first_slot + len(plan.rates_bps))
        old = self._plans.get(flow, NO_PLAN)
        for link in self._links[flow]:
            most_bps, load_bps = self.capacity_bps[link] * SLACK, self._load_bps[link]
            for slot in slots:
                rate_bps = plan.rates_bps[slot - plan.first_slot]
                if rate_bps > 0.0:
                    total_bps = load_bps.get(slot, 0.0) - old.at(slot) + rate_bps
                    if total_bps > most_bps:
                        return False
                    peak = max(peak, total_bps / self.capacity_bps[link])
        self.peak_ratio = peak
        self._replace(flow, plan)
        return True

    def _plausible(self, plan: Plan, now_slot: int) -> bool:
        """No negative, infinite or undefined rate, and no slot further from now than a horizon and a late message."""
        near = abs(plan.first_slot - now_slot) <= self.horizon and len(plan.rates_bps) <= self.horizon
        return near and all(0.0 <= rate_bps < UNLIMITED for rate_bps in plan.rates_bps)

    def _replace(self, flow: FlowId, plan: Plan) -> None:
        """Keep the sums. A slot's sum lives no longer than the horizon, so rounding cannot pile up in it."""
        old = self._plans.pop(flow, NO_PLAN)
        for link in self._links[flow]:
            load_bps = self._load_bps[link]
            for slot, rate_bps in enumerate(old.rates_bps, old.first_slot):
                if rate_bps and slot in load_bps:
                    left_bps = load_bps[slot] - rate_bps
                    load_bps[slot] = left_bps if left_bps > DUST_BPS else 0.0
            for slot, rate_bps in enumerate(plan.rates_bps, plan.first_slot):
                if rate_bps:
                    load_bps[slot] = load_bps.get(slot, 0.0) + rate_bps
        if plan.rates_bps:
            self._plans[flow] = plan

    def view(self, flow: FlowId, first_slot: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(available rate, Σ b_l/u_l) of the flow's links in this table for the horizon, without its own plan."""
        slots = range(first_slot, first_slot + self.horizon)
        own = self._plans.get(flow, NO_PLAN)
        own_bps = [own.at(slot) for slot in slots]
        available = [UNLIMITED] * self.horizon
        price = [0.0] * self.horizon
        for link in self._links[flow]:
            capacity_bps, load_of = self.capacity_bps[link], self._load_bps[link]
            for index, slot in enumerate(slots):
                load_bps = load_of.get(slot, 0.0) - own_bps[index]
                if load_bps > 0.0:
                    price[index] += load_bps / capacity_bps
                    capacity_left_bps = max(0.0, capacity_bps - load_bps)
                else:
                    capacity_left_bps = capacity_bps  # rounding may leave a hair less than nothing
                if capacity_left_bps < available[index]:
                    available[index] = capacity_left_bps
        return tuple(available), tuple(price)

    def drop(self, flow: FlowId) -> None:
        if self._heard.pop(flow, None) is not None:
            self._replace(flow, NO_PLAN)
            del self._links[flow]

    def expire(self, slot: int) -> list[FlowId]:
        """Forget past slots and the flows whose lease has run out; say which flows."""
        for load_bps in self._load_bps.values():
            for past in [known for known in load_bps if known < slot]:
                del load_bps[past]
        silent = [flow for flow, heard in self._heard.items() if slot - heard > LEASE_SLOTS]
        for flow in silent:
            self.drop(flow)
        return silent
