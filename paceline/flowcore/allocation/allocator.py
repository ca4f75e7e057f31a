"""Which slots a flow uses: Algorithm 1 of MLCC ("Dynamic Flow Scheduling for DNN Training Workloads", §IV-B).

A flow has G bytes left. In slot t its path has room for a(t) bytes, at the price p(t) = Σ_l b_l(t)/u_l:
the load that other flows plan on its links, each relative to the link's capacity. For every completion
slot β the cheapest schedule fills the slots 1..β in the order (price, index) until G is reached; the flow
takes the β of least

    cost(β) = β + w · Σ_t (v(t)/G) · p(t)            [slots]        v(t) ≤ a(t),  Σ_t v(t) = G

and the smallest β among equals. If G outlasts the horizon it takes all the room there is.

The paper sorts and fills anew for every β. Three facts about U(β), the slots used for β, save that:

1. U(β+1) ⊆ U(β) ∪ {β+1}: a slot once too expensive stays so. One set serves every β if slots are dropped
   from its expensive end while the rest still holds G. All its slots but the most expensive are full.
2. A slot not cheaper than the most expensive one in U changes nothing but β, so that β is never better.
3. cost(β) ≥ β + w·min p. Once that reaches the best cost found, no later β can win.

Deviation from §IV-B: the paper's price of a byte is the load itself. Here volumes are divided by G and
loads by capacity, or the second term would drown β for any flow of more than a few bytes.

U is a sorted list, not a heap: sort and binary insertion run in C, the order of filling comes with it,
and moving K pointers is nothing at the horizons of a plan. Comparisons are O(K log K) either way.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from operator import mul
from typing import NamedTuple

# In slots: with w = 1 a flow ends one slot later only if that takes all of its bytes off one fully loaded
# link. A larger w makes it yield more to what other flows have planned, at the expense of its own iteration.
DEFAULT_WEIGHT = 1.0

# A plan that misses less than this share of the volume is complete: far above the rounding of Σ a(t), which
# would else open one more slot for a millionth of a byte, and far below a byte.
ROUNDING = 1e-12


class Schedule(NamedTuple):
    """A flow's plan. A NamedTuple, because a frozen dataclass takes twice as long to build."""

    volume_bytes: tuple[float, ...]  # v(t), one per slot of the horizon, 0 ≤ v(t) ≤ a(t)
    finish_slots: int  # β: slots until the last byte; the horizon when incomplete
    cost: float  # in slots
    complete: bool  # the whole volume fits into the horizon


def allocate(
    volume_bytes: float, room_bytes: Sequence[float], price: Sequence[float], weight: float = DEFAULT_WEIGHT
) -> Schedule:
    """The cheapest schedule of `volume_bytes` over slots that have `room_bytes[t]` left at `price[t]`.

    Rooms and prices are finite and ≥ 0. Rooms need not be alike: the first slot may be partly over.
    """
    horizon = len(room_bytes)
    if volume_bytes <= 0.0:
        return Schedule((0.0,) * horizon, 0, 0.0, True)
    enough = volume_bytes * (1.0 - ROUNDING)

    # The first slot by whose end the volume can be through; before it there is nothing to compare.
    slot = bisect_left(list(accumulate(room_bytes)), enough)
    if slot == horizon:
        spent = sum(map(mul, room_bytes, price))
        return Schedule(tuple(room_bytes), horizon, horizon + weight * (spent / volume_bytes), False)

    # No slot needs more room than the volume. Clipping keeps the sums of the order of G, so that adding a
    # slot and dropping it again later cannot lose digits.
    room = room_bytes
    if max(room_bytes) > volume_bytes:
        room = [a if a < volume_bytes else volume_bytes for a in room_bytes]

    price_of = price.__getitem__
    used = sorted(range(slot), key=price_of)  # U, cheapest first; the sort is stable, so ties go by index
    held = sum(room[:slot])  # Σ a over U
    spent = sum(map(mul, room[:slot], price))  # Σ a·p over U
    least = weight * min(price)
    top_price = best_cost = inf
    while slot < horizon and slot + 1 + least < best_cost:  # fact 3
        if price[slot] < top_price:  # fact 2
            insort(used, slot, key=price_of)
            held += room[slot]
            spent += room[slot] * price[slot]
            while held - room[top := used[-1]] >= enough:  # fact 1
                held -= room[top]
                spent -= room[top] * price[top]
                used.pop()
            top_price = price[top]
            surplus = held - volume_bytes  # what the most expensive slot has beyond the need
            cost = slot + 1 + weight * ((spent - surplus * top_price) / volume_bytes)
            if cost < best_cost:
                finish_slots, best_cost, best_used, best_surplus = slot + 1, cost, used.copy(), surplus
        slot += 1

    volume = [0.0] * horizon
    for slot in best_used:
        volume[slot] = room[slot]
    if best_surplus > 0.0:
        volume[slot] = max(0.0, room[slot] - best_surplus)  # the last of U is its most expensive
    return Schedule(tuple(volume), finish_slots, best_cost, True)
