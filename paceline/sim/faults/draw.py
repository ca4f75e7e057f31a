"""A history from a seed: small enough to run in a few hundredths of a second, mixed enough to meet every rule.

Faults begin in the first half of the slots, about one in five slots; all have ended soon after the last. A run goes on until all
jobs have had time to go on.
"""

import random

from paceline.flowcore.model.topology import Topology
from paceline.sim.faults.history import Fault, History, Job, Kind, Lie

TOPOLOGIES = ("star", "tree", "clos")
DEFAULT_SLOTS = 16
LEAST_SLOTS = 12  # fewer leave no time to recover

SHAPES = {
    "star": ((2,), (3,), (4,)),
    "tree": ((1, 1, 2), (1, 1, 2), (2, 1, 2), (1, 2, 2)),
    "clos": ((1, 2, 2), (1, 2, 2), (1, 3, 2), (2, 2, 2)),
}
SLOTS_PER_FAULT = 5
LONGEST_FAULT_SLOTS = 14
# How late the other end of a stream notices: a reset comes at once, gRPC's pings after one to two seconds.
NOTICE_SLOTS = (0.0, 0.0, 0.01, 2.0, 16.0)
STEPS_SLOTS = (-100.0, -3.0, -0.5, 0.4, 2.0, 5.0, 100.0)


def draw(seed: int, topology: str, slots: int) -> History:
    draws = random.Random(f"{seed}/{topology}")
    bare = History(seed, topology, draws.choice(SHAPES[topology]), slots, (), ())
    built = bare.build()
    hosts = draws.sample(built.hosts, min(len(built.hosts), draws.choice((2, 3))))  # few, so that jobs meet
    jobs = tuple(_job(draws, number, hosts) for number in range(draws.choice((1, 2, 3))))
    return History(seed, topology, bare.shape, slots, jobs, _faults(draws, built, jobs, slots))


def _job(draws: random.Random, number: int, crowd: list[str]) -> Job:
    hosts = draws.sample(crowd, draws.choice((2, 2, len(crowd))))
    servers = (hosts.pop(),) if draws.random() < 0.3 else ()
    model_mb = round(draws.uniform(3.0, 16.0), 1)
    start_slot = round(draws.uniform(0.0, 4.0), 2)
    return Job(f"job{number}", tuple(hosts), servers, model_mb, round(draws.choice((0.5, 1.5, 3.0)) * draws.uniform(0.7, 1.3), 2), start_slot)


def _faults(draws: random.Random, topology: Topology, jobs: tuple[Job, ...], slots: int) -> tuple[Fault, ...]:
    count = draws.randint(1, max(2, slots // (2 * SLOTS_PER_FAULT) + 1))
    faults = (_fault(draws, topology, jobs, slots) for _ in range(count))
    return tuple(sorted(faults, key=lambda fault: fault.at_slot))


def _fault(draws: random.Random, topology: Topology, jobs: tuple[Job, ...], slots: int) -> Fault:
    kind = draws.choice((*Kind, Kind.CUT, Kind.STALL, Kind.CRASH, Kind.CRASH))
    at_slot = round(draws.uniform(0.0, slots / 2), 2)
    longest = max(2.0, min(LONGEST_FAULT_SLOTS, slots - at_slot))
    for_slots = round(draws.choice((draws.uniform(0.1, 2.0), draws.uniform(longest / 2, longest))), 2)
    notice_slots = min(draws.choice(NOTICE_SLOTS), longest)
    peer, amount = "", 0.0
    node = draws.choice(topology.switches)
    match kind:
        case Kind.CUT | Kind.LATE:
            node, peer = draws.choice([(node, parent) for node, above in topology.parents.items() for parent in above])
            amount = round(draws.choice((0.05, 0.5, 1.5, 4.0, 12.0)), 2) if kind is Kind.LATE else 0.0
        case Kind.STALL | Kind.CRASH:
            node = draws.choice((*topology.switches, *topology.hosts))
            amount = draws.choice((0.0, *STEPS_SLOTS)) if kind is Kind.CRASH and node in topology.switches else 0.0
        case Kind.DOUBLED | Kind.SUSPEND:
            node = draws.choice(topology.hosts)
        case Kind.LIE:
            node, peer = draws.choice(topology.hosts), draws.choice(list(Lie))
        case Kind.HANG | Kind.KILL:
            node = draws.choice(jobs).name
        case Kind.CLOCK:
            amount = draws.choice(STEPS_SLOTS)
    notice_slots = notice_slots if kind in (Kind.CUT, Kind.CRASH) else 0.0
    return Fault(kind, node, at_slot, for_slots, peer, amount, notice_slots)
