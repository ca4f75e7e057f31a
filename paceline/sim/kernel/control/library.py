"""The control's C functions, and the structures that mirror those of control.h; a test compares the two."""

import ctypes

from paceline.flowcore.allocation.arbiters import LARGEST_EXACT
from paceline.flowcore.allocation.borrowing import NEARLY_ALL
from paceline.flowcore.allocation.pricing import ROUNDS
from paceline.flowcore.detect import pace, stalls
from paceline.flowcore.messages.events import FLOOR_BPS, SHORTEST_BURST_NS
from paceline.flowcore.policy import paceline
from paceline.flowcore.policy.arbitrated import SHORTEST_BURST_RTTS
from paceline.sim.kernel.library import COLUMN, FRACTION, NUMBER, Network

MOST_TIERS = 8


class Rules(ctypes.Structure):
    """flowcore's constants."""

    _fields_ = (
        *((name, FRACTION) for name in ("memory_iterations", "least_pace", "gain", "floor_bps", "used")),
        *((name, FRACTION) for name in ("most_of_a_slot", "least_share_bps", "moved_of_floor")),
        *((name, FRACTION) for name in ("kappa", "finest_ns", "nearly_all")),
        *((name, NUMBER) for name in ("longest_wait_slots", "shortest_burst_rtts", "shortest_burst_ns")),
        *((name, NUMBER) for name in ("rounds", "largest_exact")),
    )


class Progress(ctypes.Structure):
    """Of a job on one host; what a bid reads has the names of JobProgress."""

    _fields_ = (
        *((name, FRACTION) for name in ("weight", "compute_ns", "alone_comm_ns", "pace", "iterations")),
        *((name, NUMBER) for name in ("bursts", "begun_bursts", "started_ns", "updated_ns", "communicating")),
    )

    @property
    def slowdown(self) -> float:
        return float(1.0 / self.pace)

    @property
    def iteration_compute_ns(self) -> float:
        return float(self.bursts * self.compute_ns)

    @property
    def alone_ns(self) -> float:
        return float(self.iteration_compute_ns + self.alone_comm_ns)


class Stalls(ctypes.Structure):
    _fields_ = tuple((name, NUMBER) for name in ("unused", "stalled_slot", "wait_slots"))


class BidInC(ctypes.Structure):
    _fields_ = tuple((name, FRACTION) for name in ("urgency", "compute_ns", "remaining_ns"))


BidFunction = ctypes.CFUNCTYPE(None, ctypes.POINTER(Progress), FRACTION, FRACTION, NUMBER, ctypes.POINTER(BidInC))


def rules() -> Rules:
    return Rules(
        memory_iterations=pace.MEMORY_ITERATIONS,
        least_pace=pace.LEAST_PACE,
        gain=pace.GAIN,
        floor_bps=FLOOR_BPS,
        used=stalls.USED,
        most_of_a_slot=stalls.MOST_OF_A_SLOT,
        least_share_bps=stalls.LEAST_SHARE_BPS,
        moved_of_floor=stalls.MOVED_OF_FLOOR,
        kappa=paceline.KAPPA,
        finest_ns=paceline.FINEST_NS,
        nearly_all=NEARLY_ALL,
        longest_wait_slots=stalls.LONGEST_WAIT_SLOTS,
        shortest_burst_rtts=SHORTEST_BURST_RTTS,
        shortest_burst_ns=SHORTEST_BURST_NS,
        rounds=ROUNDS,
        largest_exact=LARGEST_EXACT,
    )


def declared(found: ctypes.CDLL) -> ctypes.CDLL:
    """With the control's functions, which all have a control first."""
    found.control_new.restype = COLUMN
    network, these = ctypes.POINTER(Network), ctypes.POINTER(Rules)
    found.control_new.argtypes = (network, these, COLUMN, BidFunction, COLUMN, COLUMN, COLUMN)
    for name, result, arguments in (
        ("add_contender", NUMBER, (ctypes.c_char_p, NUMBER, FRACTION)),
        ("add_part", None, (NUMBER, NUMBER, NUMBER, FRACTION, FRACTION, FRACTION, FRACTION, NUMBER)),
        ("add_flow", None, (NUMBER, NUMBER, NUMBER, FRACTION, FRACTION, COLUMN, NUMBER, COLUMN, NUMBER)),
        ("leave", None, (COLUMN, NUMBER, COLUMN, NUMBER, NUMBER)),
        ("ready", None, (COLUMN, NUMBER, NUMBER)),
        ("done", None, (NUMBER, NUMBER)),
        ("iteration_ended", None, (NUMBER, NUMBER)),
        ("happen", None, (NUMBER, NUMBER)),
        ("run", None, (NUMBER,)),
        ("peak_ratio", FRACTION, ()),
        ("decisions", NUMBER, (ctypes.POINTER(ctypes.POINTER(NUMBER)),)),
        ("free", None, ()),
    ):
        function = getattr(found, f"control_{name}")
        function.restype, function.argtypes = result, (COLUMN, *arguments)
    return found
