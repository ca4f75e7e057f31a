"""How long Algorithm 1 takes to plan one flow, by horizon.

The flows cross two 10 Gbit/s links in 60 ms slots. In every slot each link is loaded with 0–90 % of its
capacity, and a flow has 1–80 % of what its path could still carry over the horizon, so every plan is
feasible. The figure is the median over the repeats of the mean time per flow: a busy machine spoils a
repeat, not the result.
"""

import random
from statistics import median
from time import perf_counter_ns

from flowcore.allocator import allocate

HORIZONS_SLOTS = (10, 100)
SLOT_BYTES = 10e9 / 8 * 0.060  # one slot of an idle link


def random_flow(rng: random.Random, horizon_slots: int) -> tuple[float, list[float], list[float]]:
    """Volume, room and price of a flow over two links with independent loads."""
    loads = [(rng.uniform(0.0, 0.9), rng.uniform(0.0, 0.9)) for _ in range(horizon_slots)]
    room_bytes = [(1.0 - max(pair)) * SLOT_BYTES for pair in loads]
    return rng.uniform(0.01, 0.80) * sum(room_bytes), room_bytes, [sum(pair) for pair in loads]


def measure_allocate(seed: int = 1, flows: int = 2000, repeats: int = 5) -> dict[str, dict[str, float]]:
    """`us_per_flow` by horizon."""
    us_per_flow: dict[str, float] = {}
    for horizon_slots in HORIZONS_SLOTS:
        rng = random.Random(seed)
        problems = [random_flow(rng, horizon_slots) for _ in range(flows)]
        means_us = []
        for _ in range(repeats):
            start_ns = perf_counter_ns()
            for volume_bytes, room_bytes, price in problems:
                allocate(volume_bytes, room_bytes, price)
            means_us.append((perf_counter_ns() - start_ns) / 1e3 / flows)
        us_per_flow[str(horizon_slots)] = median(means_us)
    return {"us_per_flow": us_per_flow}
