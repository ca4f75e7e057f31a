"""A history from a seed: small enough to run in less than a tenth of a second, mixed enough to meet every rule.

Few hosts, so that jobs meet on their links; faults only where a job's claims pass. They begin in the first half of the
slots, about one in five slots, every other one long enough for entries to end and switches to be missed. A run goes on
until the last fault is over and all jobs have had time to go on.
"""

import random
from typing import NamedTuple

from paceline.flowcore.model.topology import Topology
from paceline.sim.faults.history import Fault, History, Job, Kind
from paceline.sim.lies.telling import DRAWN

TOPOLOGIES = ("star", "tree", "clos")
SHAPES = {
    "star": ((2,), (3,), (4,)),
    "tree": ((1, 1, 2), (1, 1, 2), (2, 1, 2), (1, 2, 2)),
    "clos": ((1, 2, 2), (1, 2, 2), (1, 3, 2), (2, 2, 2)),
}
SLOTS_PER_FAULT = 5
LONGEST_FAULT_SLOTS = 14.0
MOST_KINDS = (*Kind, Kind.CUT, Kind.STALL, Kind.CRASH, Kind.CRASH)  # those with most rules come up more often
# How late the other end of a stream notices: a reset comes at once, gRPC's pings after one to two seconds.
NOTICE_SLOTS = (0.0, 0.0, 0.01, 2.0, 16.0)
STEPS_SLOTS = (-100.0, -3.0, -0.5, 0.4, 2.0, 5.0, 100.0)
APART_SLOTS = (-0.5, 0.4)  # spines follow no switch: what sets their clocks must keep them together
LATE_SLOTS = (0.05, 0.5, 1.5, 4.0, 12.0)
COMPUTE_SLOTS = (0.5, 1.5, 3.0)


class _Involved(NamedTuple):
    """What the jobs' claims pass."""

    hosts: list[str]
    switches: list[str]
    streams: list[tuple[str, str]]
    several_tops: bool


def draw(seed: int, topology: str, slots: int) -> History:
    draws = random.Random(f"{seed}/{topology}")
    bare = History(seed, topology, draws.choice(SHAPES[topology]), slots, (), ())
    built = bare.build()
    involved = _involve(built, draws.sample(built.hosts, min(len(built.hosts), draws.choice((2, 3)))))
    jobs = tuple(_job(draws, number, involved.hosts) for number in range(draws.choice((1, 2, 3))))
    count = draws.randint(1, max(2, slots // (2 * SLOTS_PER_FAULT) + 1))
    faults = sorted((_fault(draws, involved, jobs, slots) for _ in range(count)), key=lambda fault: fault.at_slot)
    return History(seed, topology, bare.shape, slots, jobs, tuple(faults))


def _involve(topology: Topology, hosts: list[str]) -> _Involved:
    nodes = dict.fromkeys(hosts)
    for node in nodes.copy():
        climb = [node]
        while climb:
            above = topology.parents.get(climb.pop(), ())
            climb += above
            nodes |= dict.fromkeys(above)
    streams = [(lower, upper) for lower in nodes for upper in topology.parents.get(lower, ())]
    tops = [node for node in nodes if node not in topology.parents]
    return _Involved(hosts, [node for node in nodes if node not in hosts], streams, len(tops) > 1)


def _job(draws: random.Random, number: int, crowd: list[str]) -> Job:
    hosts = draws.sample(crowd, draws.choice((2, 2, len(crowd))))
    servers = (hosts.pop(),) if draws.random() < 0.3 else ()
    compute_slots = draws.choice(COMPUTE_SLOTS) * draws.uniform(0.7, 1.3)
    return Job(
        name=f"job{number}",
        workers=tuple(hosts),
        servers=servers,
        model_mb=round(draws.uniform(3.0, 16.0), 1),
        compute_slots=round(compute_slots, 2),
        start_slot=round(draws.uniform(0.0, 2.0), 2),
    )


def _fault(draws: random.Random, involved: _Involved, jobs: tuple[Job, ...], slots: int) -> Fault:
    kind = draws.choice(MOST_KINDS)
    at_slot = round(draws.uniform(1.0, slots / 2), 2)
    longest = min(LONGEST_FAULT_SLOTS, slots - at_slot)
    for_slots = round(draws.choice((draws.uniform(0.1, 2.0), draws.uniform(longest / 2, longest))), 2)
    notice_slots = min(draws.choice(NOTICE_SLOTS), round(longest, 2)) if kind in (Kind.CUT, Kind.CRASH) else 0.0
    peer, amount = "", 0.0
    steps_slots = APART_SLOTS if involved.several_tops else STEPS_SLOTS
    match kind:
        case Kind.CUT | Kind.LATE:
            node, peer = draws.choice(involved.streams)
            amount = draws.choice(LATE_SLOTS) if kind is Kind.LATE else 0.0
        case Kind.STALL:
            node = draws.choice(involved.hosts + involved.switches)
        case Kind.CRASH:
            node = draws.choice(involved.hosts + involved.switches)
            amount = draws.choice((0.0, *steps_slots)) if node in involved.switches else 0.0
        case Kind.DOUBLED | Kind.SUSPEND:
            node = draws.choice(involved.hosts)
        case Kind.LIE:
            node, peer = draws.choice(involved.hosts), draws.choice(list(DRAWN))
        case Kind.HANG | Kind.KILL:
            node = draws.choice(jobs).name
        case Kind.CLOCK:
            node, amount = draws.choice(involved.switches), draws.choice(steps_slots)
    return Fault(kind, node, at_slot, for_slots, peer, amount, notice_slots)
