"""How long Algorithm 1 takes to plan one flow, by horizon, and a host to decide on all of its flows.

The flows cross two 10 Gbit/s links in 60 ms slots. In every slot each link is loaded with 0–90 % of its
capacity, and a flow has 1–80 % of what its path could still carry over the horizon, so every plan is
feasible. Every piece of work is timed REPEATS times and counts with its fastest time: the cost of the code without
other load on the machine (the reason timeit gives for its minimum).

A decision is what a host does once the switch has answered: plan DECISION_FLOWS flows one after the other,
each in the room that the plans before it left, since they share the host's NIC. Each has a tenth of the
volume above, so that all fit: a plan that does not fit needs no search and would flatter the figure. The figure is
the 90th percentile over different decisions.
"""

import random
from collections.abc import Callable, Sequence
from math import inf
from operator import add
from statistics import fmean, quantiles
from time import perf_counter_ns

from paceline.flowcore.allocation.allocator import Schedule, allocate

HORIZONS_SLOTS = (10, 100)
BATCH_FLOWS = 20
REPEATS = 7
DECISION_FLOWS = 10
DECISION_HORIZON_SLOTS = 10
SLOT_BYTES = 10e9 / 8 * 0.060  # one slot of an idle link

Flow = tuple[float, list[float], list[float]]  # volume, room and price, in allocate's order


def random_flow(rng: random.Random, horizon_slots: int) -> Flow:
    """Volume, room and price of a flow over two links with independent loads."""
    loads = [(rng.uniform(0.0, 0.9), rng.uniform(0.0, 0.9)) for _ in range(horizon_slots)]
    room_bytes = [(1.0 - max(pair)) * SLOT_BYTES for pair in loads]
    return rng.uniform(0.01, 0.80) * sum(room_bytes), room_bytes, [sum(pair) for pair in loads]


def measure_allocate(seed: int = 1, flows: int = 2000) -> dict[str, dict[str, float]]:
    """`us_per_flow` by horizon."""
    us_per_flow: dict[str, float] = {}
    for horizon_slots in HORIZONS_SLOTS:
        rng = random.Random(seed)
        batches = [[random_flow(rng, horizon_slots) for _ in range(BATCH_FLOWS)] for _ in range(flows // BATCH_FLOWS)]
        us_per_flow[str(horizon_slots)] = fmean(_fastest_us(_plan_all, batches)) / BATCH_FLOWS
    return {"us_per_flow": us_per_flow}


def measure_decisions(seed: int = 1, decisions: int = 1000) -> dict[str, float]:
    """`p90_decision_us`."""
    rng = random.Random(seed)
    problems = [_random_decision(rng) for _ in range(decisions)]
    return {"p90_decision_us": quantiles(_fastest_us(decide, problems), n=10)[-1]}


def _fastest_us(work: Callable[[list[Flow]], object], inputs: Sequence[list[Flow]]) -> list[float]:
    fastest_us = [inf] * len(inputs)
    for _ in range(REPEATS):
        for index, flows in enumerate(inputs):
            start_ns = perf_counter_ns()
            work(flows)
            fastest_us[index] = min(fastest_us[index], (perf_counter_ns() - start_ns) / 1e3)
    return fastest_us


def _plan_all(flows: Sequence[Flow]) -> None:
    for volume_bytes, room_bytes, price in flows:
        allocate(volume_bytes, room_bytes, price)


def decide(flows: Sequence[Flow]) -> list[Schedule]:
    """Plan the flows of one NIC in turn."""
    committed_bytes = [0.0] * len(flows[0][1])
    plans = []
    for volume_bytes, room_bytes, price in flows:
        both = zip(room_bytes, committed_bytes, strict=True)
        left = [room - taken if room > taken else 0.0 for room, taken in both]
        plan = allocate(volume_bytes, left, price)
        committed_bytes = list(map(add, committed_bytes, plan.volume_bytes))
        plans.append(plan)
    return plans


def _random_decision(rng: random.Random) -> list[Flow]:
    flows = [random_flow(rng, DECISION_HORIZON_SLOTS) for _ in range(DECISION_FLOWS)]
    return [(volume_bytes / DECISION_FLOWS, room_bytes, price) for volume_bytes, room_bytes, price in flows]
