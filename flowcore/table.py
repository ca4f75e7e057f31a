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
    """K-slot loads of some links. `capacity_bps` fixes which links; others on a path belong to other tables.

    A link's loads are one list that begins with the slot `_first` and moves on with time, and so are a flow's own
    rates: a plan is entered with one pass over a list per link. (Sums in a dictionary by slot took twice as long.)
    """

    def __init__(self, capacity_bps: Mapping[str, float], horizon: int) -> None:
        self.capacity_bps = dict(capacity_bps)
        self.horizon = horizon
        self.peak_ratio = 0.0  # the largest b_l(t)/u_l ever entered
        self._plans: dict[FlowId, Plan] = {}
        self._links: dict[FlowId, tuple[str, ...]] = {}
        self._heard: dict[FlowId, int] = {}
        self._first = 0  # slot the lists begin with
        # A plan begins at most a horizon from now and is a horizon long.
        self._width = 2 * horizon
        self._load_bps = {link: [0.0] * self._width for link in capacity_bps}  # b_l(t) from `_first` on

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
        offset = slot - self._first
        load_bps = self._load_bps[link][offset] if 0 <= offset < self._width else 0.0
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
        self._move_on(now_slot)
        old = self._plans.get(flow, NO_PLAN)
        reach = max(self._reach(old), self._reach(plan))
        old_bps, new_bps = self._placed(old, reach), self._placed(plan, reach)
        highest, totals_bps = 0.0, []
        for link in self._links[flow]:
            total_bps = _replaced(self._load_bps[link], old_bps, new_bps)
            highest = max(highest, max(total_bps, default=0.0) / self.capacity_bps[link])
            if highest > SLACK:
                return False
            totals_bps.append((link, total_bps))
        for link, total_bps in totals_bps:
            self._load_bps[link][:reach] = total_bps
        self.peak_ratio = max(self.peak_ratio, highest)
        self._plans[flow] = plan
        return True

    def _plausible(self, plan: Plan, now_slot: int) -> bool:
        """No negative, infinite or undefined rate, and no slot further from now than a horizon and a late message."""
        rates_bps = plan.rates_bps
        if abs(plan.first_slot - now_slot) > self.horizon or len(rates_bps) > self.horizon:
            return False
        return not rates_bps or (min(rates_bps) >= 0.0 and sum(rates_bps) < UNLIMITED)  # the sum is NaN if one is

    def view(self, flow: FlowId, first_slot: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(available rate, Σ b_l/u_l) of the flow's links in this table for the horizon, without its own plan."""
        self._move_on(first_slot)
        end = self.horizon
        own_bps = self._placed(self._plans.get(flow, NO_PLAN), end)
        available = (UNLIMITED,) * end
        price = (0.0,) * end
        for link in self._links[flow]:
            capacity_bps = self.capacity_bps[link]
            # Rounding may leave a hair less than nothing.
            load_bps = [
                left if (left := load - own) > 0.0 else 0.0
                for load, own in zip(self._load_bps[link], own_bps, strict=False)
            ]
            available = tuple(
                [
                    free if (free := capacity_bps - load) < least else least
                    for load, least in zip(load_bps, available, strict=True)
                ]
            )
            price = tuple([paid + load / capacity_bps for load, paid in zip(load_bps, price, strict=True)])
        return tuple([free if free > 0.0 else 0.0 for free in available]), price

    def drop(self, flow: FlowId) -> None:
        if self._heard.pop(flow, None) is not None:
            links, plan = self._links.pop(flow), self._plans.pop(flow, None)
            if plan is not None:
                reach = self._reach(plan)
                old_bps, nothing = self._placed(plan, reach), [0.0] * reach
                for link in links:
                    self._load_bps[link][:reach] = _replaced(self._load_bps[link], old_bps, nothing)

    def expire(self, slot: int) -> list[FlowId]:
        """Forget past slots and the flows whose lease has run out; say which flows."""
        self._move_on(slot)
        silent = [flow for flow, heard in self._heard.items() if slot - heard > LEASE_SLOTS]
        for flow in silent:
            self.drop(flow)
        return silent

    def _move_on(self, slot: int) -> None:
        """Begin the lists with this slot. A slot's sum lives no longer than the lists are wide, so rounding cannot
        pile up in it."""
        steps = min(slot - self._first, self._width)
        if steps > 0:
            self._first = slot
            for load_bps in self._load_bps.values():
                del load_bps[:steps]
                load_bps += [0.0] * steps

    def _reach(self, plan: Plan) -> int:
        """How many slots from the first the plan touches."""
        return max(0, plan.first_slot + len(plan.rates_bps) - self._first)

    def _placed(self, plan: Plan, reach: int) -> list[float]:
        """The plan's rates where the lists have its slots, and nothing in the others, as far as `reach`."""
        rates_bps, ahead = plan.rates_bps, plan.first_slot - self._first
        if ahead < 0:
            rates_bps, ahead = rates_bps[-ahead:], 0
        placed = [0.0] * ahead
        placed += rates_bps
        del placed[reach:]
        placed += [0.0] * (reach - len(placed))
        return placed


def _replaced(load_bps: list[float], old_bps: list[float], new_bps: list[float]) -> list[float]:
    """One plan taken out of the loads and another put in."""
    return [
        (load if not old else left if (left := load - old) > DUST_BPS else 0.0) + new
        for load, old, new in zip(load_bps, old_bps, new_bps, strict=False)  # loads reach further
    ]
