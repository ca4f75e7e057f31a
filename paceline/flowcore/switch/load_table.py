"""The load table of a switch: what flows have promised to send over each link in the coming slots (§IV-A).

    b_l(t) = Σ_f r_f(t)  over the flows f whose path crosses l              t = absolute slot
    o_l                  what cross traffic sends over it as well, in every slot: nobody knows when it ends

Laws:
1. A plan replaces the flow's old plan; it never adds to it.
2. A flow never sees its own plan in its feedback.
3. b_l(t) ≤ u_l for every link and slot: a plan that would break this is refused and the table is unchanged.
4. An entry must be renewed: a flow that no report has named for ENTRY_SLOTS slots is forgotten, and so is o_l.
5. Flows see b_l + o_l, at most u_l. No plan adds to a slot in which b_l(t) + o_l would be above u_l; plans that were
   there when o_l grew stay until they are replaced, and may be replaced by smaller ones.

Plans that come together are entered together, and one by one only if they do not all fit. Slots in the past are of no
interest: loads are asked for from a slot on, and a plan ends where it ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED

# Three lost reports in a row mean a dead host rather than a late one; at 60 ms slots its bandwidth is free again
# before the next iteration of any job.
ENTRY_SLOTS = 3

# Sums of floats may exceed the capacity by rounding although no flow plans too much.
SLACK = 1.0 + 1e-9

# And a sum whose parts have all been taken out again may leave this part of the capacity, which must not make an
# empty slot look dearer than another.
DUST = 1e-12

Rates = tuple[float, ...]
_FEW_FLOWS = 16
_KNOWN_GROUPS = 1024


class _Group(NamedTuple):
    """Where flows that are named together are in the arrays: the same ones come again in every slot."""

    rows: NDArray[np.intp]  # n: their own rates
    path: NDArray[np.intp]  # longest path × n: their links' loads, ...
    u_bps: NDArray[np.float64]  # longest path × n × 1: ... what those can carry, ...
    dust_bps: NDArray[np.float64]  # ... and what of it is nothing
    links: NDArray[np.intp]  # m: each of these links once
    links_bps: NDArray[np.float64]  # m × 1
    places: NDArray[np.intp]  # longest path × n: where among those each flow's are


class LoadTable:
    """K-slot loads of some links. `capacity_bps` fixes which; a path's remaining links belong to other tables.

    Two arrays begin with the slot `_first` and move on with time: loads by link, and the flows' own rates, a row each.
    A report of ten flows is entered with one pass over them, instead of ten. Rows are gathered with `take`: indexing
    by a list does the same three times slower.
    """

    def __init__(self, capacity_bps: Mapping[str, float], horizon: int) -> None:
        self.capacity_bps = dict(capacity_bps)
        self.horizon = horizon
        self.peak_ratio = 0.0  # the largest b_l(t)/u_l ever entered
        self._heard: dict[FlowId, int] = {}
        self._links: dict[FlowId, tuple[str, ...]] = {}
        self._first = 0  # slot the arrays begin with
        width = 2 * horizon  # a plan begins at most a horizon from now and is a horizon long
        self._index = {link: index for index, link in enumerate(self.capacity_bps)}
        # Paths are filled up to the same length with one link more, which is never full.
        self._nowhere = len(self._index)
        self._u_bps = np.array([*self.capacity_bps.values(), UNLIMITED])
        self._load_bps = np.zeros((self._nowhere + 1, width))
        self._row: dict[FlowId, int] = {}
        self._free_rows: list[int] = []
        self._own_bps = np.zeros((0, width))
        self._path = np.zeros((1, 0), dtype=np.intp)  # a column each: the first link, the second, ...
        self._groups: dict[tuple[FlowId, ...], _Group] = {}
        self._others_bps = np.zeros(self._nowhere + 1)  # o_l
        self._others_heard: dict[str, int] = {}  # the slot in which it was said last, of links with any

    def __contains__(self, flow: FlowId) -> bool:
        return flow in self._heard

    def __len__(self) -> int:
        return len(self._heard)

    def renew(self, flow: FlowId, path: Iterable[str], slot: int) -> tuple[str, ...]:
        """Keep the flow's entry for another ENTRY_SLOTS; returns the links of its path that are in this table."""
        self._heard[flow] = slot
        links = self._links.get(flow)
        if links is None:
            links = self._links[flow] = tuple(link for link in path if link in self.capacity_bps)
            self._row[flow] = self._new_row([self._index[link] for link in links])
        return links

    def set_others(self, link: str, others_bps: float, slot: int) -> None:
        """o_l, for ENTRY_SLOTS; more than the link carries is as much as it carries."""
        at = self._index[link]
        if others_bps > 0.0:  # which NaN is not
            self._others_heard[link] = slot
            self._others_bps[at] = min(others_bps, self.capacity_bps[link])
        elif self._others_heard.pop(link, None) is not None:
            self._others_bps[at] = 0.0

    def others_bps(self, link: str) -> float:
        """o_l."""
        return float(self._others_bps[self._index[link]])

    @property
    def has_others(self) -> bool:
        return bool(self._others_heard)

    def load_bps(self, link: str, slot: int, without: FlowId | None = None) -> float:
        """b_l(t) + o_l, optionally as one flow sees it."""
        offset, load_bps = slot - self._first, 0.0
        if 0 <= offset < self._load_bps.shape[1]:
            own_bps = self._own_bps[self._row[without], offset] if without is not None else 0.0
            load_bps = float(self._load_bps[self._index[link], offset] - own_bps)
        load_bps = load_bps if load_bps > DUST * self.capacity_bps[link] else 0.0
        others_bps = self.others_bps(link)
        return min(load_bps + others_bps, self.capacity_bps[link]) if others_bps else load_bps

    def flows_per_link(self) -> dict[str, int]:
        """How many flows have an entry on each link that has any."""
        counts: dict[str, int] = {}
        for links in self._links.values():
            for link in links:
                counts[link] = counts.get(link, 0) + 1
        return counts

    def entries(self, slot: int) -> Iterator[tuple[FlowId, tuple[str, ...], float]]:
        """Every flow with an entry, its links in this table, and the rate that it planned for the slot."""
        offset = slot - self._first
        known = 0 <= offset < self._own_bps.shape[1]
        for flow, links in self._links.items():
            yield flow, links, float(self._own_bps[self._row[flow], offset]) if known else 0.0

    def enter(self, plans: Mapping[FlowId, Rates], first_slot: int, now_slot: int) -> dict[FlowId, bool]:
        """Replace the flows' plans where the links can carry them; says which were.

        A plan that is not plausible, as a faulty peer may send, is refused like one that does not fit.
        """
        self._move_on(now_slot)
        sensible = plans
        if not self._plausible(plans.values(), first_slot, now_slot):
            sensible = {flow: bps for flow, bps in plans.items() if self._plausible((bps,), first_slot, now_slot)}
        together = self._replace(sensible, first_slot)
        return {
            flow: flow in sensible and (together or self._replace({flow: rates_bps}, first_slot))
            for flow, rates_bps in plans.items()
        }

    def _replace(self, plans: Mapping[FlowId, Rates], first_slot: int) -> bool:
        """All of these plans, or none."""
        if not plans:
            return True
        group = self._group(tuple(plans))
        new_bps = self._placed(list(plans.values()), first_slot)
        change_bps = new_bps - self._own_bps.take(group.rows, axis=0)
        load_bps = self._load_bps.take(group.links, axis=0)
        if len(plans) == 1:  # no link twice
            load_bps[group.places[:, 0]] += change_bps
        else:
            np.add.at(load_bps, group.places, change_bps)
        highest = float(np.maximum.reduce(load_bps / group.links_bps, axis=None))
        if highest > SLACK or (self._others_heard and self._crowds_others(group, load_bps)):
            return False
        self.peak_ratio = max(self.peak_ratio, highest)
        self._load_bps[group.links] = load_bps
        self._own_bps[group.rows] = new_bps
        return True

    def _crowds_others(self, group: _Group, load_bps: NDArray[np.float64]) -> bool:
        """Whether these loads are higher than before somewhere beside cross traffic that leaves no room for that."""
        others_bps = self._others_bps.take(group.links)[:, None]
        before_bps = self._load_bps.take(group.links, axis=0)
        grows = load_bps > before_bps + DUST * group.links_bps
        return bool(np.any(grows & (load_bps + others_bps > SLACK * group.links_bps)))

    def _plausible(self, plans_bps: Iterable[Rates], first_slot: int, now_slot: int) -> bool:
        """No negative, infinite or undefined rate, and no slot further from now than a horizon and a late message."""
        if abs(first_slot - now_slot) > self.horizon or max(map(len, plans_bps), default=0) > self.horizon:
            return False
        rates_bps = tuple(chain.from_iterable(plans_bps))
        return not rates_bps or (min(rates_bps) >= 0.0 and sum(rates_bps) < UNLIMITED)  # the sum is NaN if one is

    def view(self, flows: Sequence[FlowId], first_slot: int) -> list[tuple[Rates, Rates]]:
        """(available rate, Σ b_l/u_l) of each flow's links in this table for the horizon, without its own plan."""
        if not flows:
            return []
        self._move_on(first_slot)
        if len(flows) == 1:
            return [self._view_of_one(flows[0])]
        group = self._group(tuple(flows))
        load_bps = self._load_bps.take(group.path, axis=0)[:, :, : self.horizon]
        load_bps -= self._own_bps.take(group.rows, axis=0)[:, : self.horizon]
        load_bps *= load_bps >= group.dust_bps
        if self._others_heard:
            load_bps += self._others_bps.take(group.path)[:, :, None]
            np.minimum(load_bps, group.u_bps, out=load_bps)
        room_bps = np.minimum.reduce(group.u_bps - load_bps)
        np.maximum(room_bps, 0.0, out=room_bps)  # rounding may leave a hair less than nothing
        price = np.add.reduce(load_bps / group.u_bps)
        return list(zip(map(tuple, room_bps.tolist()), map(tuple, price.tolist()), strict=True))

    def _view_of_one(self, flow: FlowId) -> tuple[Rates, Rates]:
        """The same without arrays, which cost more than they save: most hosts report one flow."""
        horizon = self.horizon
        own_bps = self._own_bps[self._row[flow], :horizon].tolist()
        room_bps, price = [UNLIMITED] * horizon, [0.0] * horizon
        for link in self._links[flow]:
            u_bps = self.capacity_bps[link]
            dust_bps, others_bps = DUST * u_bps, self.others_bps(link) if self._others_heard else 0.0
            for slot, load_bps in enumerate(self._load_bps[self._index[link], :horizon].tolist()):
                load_bps -= own_bps[slot]
                if load_bps < dust_bps:
                    load_bps = 0.0
                load_bps = min(load_bps + others_bps, u_bps) if others_bps else load_bps
                left_bps = u_bps - load_bps
                if left_bps < room_bps[slot]:
                    room_bps[slot] = max(left_bps, 0.0)  # rounding may leave a hair less than nothing
                price[slot] += load_bps / u_bps
        return tuple(room_bps), tuple(price)

    def drop(self, flow: FlowId) -> None:
        if self._heard.pop(flow, None) is not None:
            self._groups.clear()
            del self._links[flow]
            row = self._row.pop(flow)
            self._load_bps[self._path[:, row]] -= self._own_bps[row]
            self._own_bps[row] = 0.0
            self._free_rows.append(row)

    def expire(self, slot: int) -> list[FlowId]:
        """Forget past slots and the flows whose entry was not renewed; says which flows."""
        self._move_on(slot)
        silent = [flow for flow, heard in self._heard.items() if slot - heard > ENTRY_SLOTS]
        for flow in silent:
            self.drop(flow)
        for link in [link for link, heard in self._others_heard.items() if slot - heard > ENTRY_SLOTS]:
            self.set_others(link, 0.0, slot)
        return silent

    def _move_on(self, slot: int) -> None:
        """Begin the arrays with this slot. A slot's sum lives no longer than they are wide, so rounding cannot pile
        up in it."""
        width = self._load_bps.shape[1]
        steps = min(slot - self._first, width)
        if steps > 0:
            self._first = slot
            for rates_bps in (self._load_bps, self._own_bps):
                rates_bps[:, : width - steps] = rates_bps[:, steps:]
                rates_bps[:, width - steps :] = 0.0

    def _placed(self, plans: Sequence[Rates], first_slot: int) -> NDArray[np.float64]:
        """The plans' rates where the arrays have their slots, and 0 in the remaining slots."""
        placed = np.zeros((len(plans), self._load_bps.shape[1]))
        ahead = first_slot - self._first
        past, ahead = max(0, -ahead), max(0, ahead)
        length = len(plans[0])
        if all(len(rates_bps) == length for rates_bps in plans):
            rates_bps = np.array(list(chain.from_iterable(plans))).reshape(len(plans), length)
            placed[:, ahead : ahead + max(0, length - past)] = rates_bps[:, past:]
        else:
            for row, plan_bps in zip(placed, plans, strict=True):
                row[ahead : ahead + max(0, len(plan_bps) - past)] = plan_bps[past:]
        return placed

    def _group(self, flows: tuple[FlowId, ...]) -> _Group:
        group = self._groups.get(flows)
        if group is None:
            if len(self._groups) >= _KNOWN_GROUPS:
                self._groups.clear()
            rows = np.array([self._row[flow] for flow in flows])
            path = self._path.take(rows, axis=1)
            u_bps = self._u_bps.take(path)[:, :, None]
            links, places = np.unique(path, return_inverse=True)
            links_bps = self._u_bps.take(links)[:, None]
            places = places.reshape(path.shape)
            group = self._groups[flows] = _Group(rows, path, u_bps, DUST * u_bps, links, links_bps, places)
        return group

    def _new_row(self, path: list[int]) -> int:
        longest = len(self._path)
        if len(path) > longest:
            self._groups.clear()
            beyond = ((0, len(path) - longest), (0, 0))
            self._path = np.pad(self._path, beyond, constant_values=self._nowhere)
        if not self._free_rows:
            rows = len(self._own_bps)
            more = max(_FEW_FLOWS, rows)  # twice as many
            self._free_rows = list(range(rows, rows + more))
            self._own_bps = np.pad(self._own_bps, ((0, more), (0, 0)))
            self._path = np.pad(self._path, ((0, 0), (0, more)), constant_values=self._nowhere)
        row = self._free_rows.pop()
        self._path[:, row] = path + [self._nowhere] * (len(self._path) - len(path))
        return row
