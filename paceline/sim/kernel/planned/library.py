"""The compiled hosts and switches of `mlcc` as Python sees them: constants, structures, functions.

Structures mirror those of planned.h field by field; a test compares them.
"""

import ctypes

from paceline.flowcore.allocation import allocator
from paceline.flowcore.host import bandwidth
from paceline.flowcore.messages.events import FLOOR_BPS
from paceline.flowcore.policy import mlcc
from paceline.flowcore.switch import claims, load_table
from paceline.sim.kernel.library import COLUMN, FRACTION, NUMBER, Network

MOST_SAMPLES = 8
MOST_HORIZON = 64
MOST_SWITCHES = 60  # on a path: one bit each


class Planning(ctypes.Structure):
    """flowcore's constants."""

    _fields_ = (
        *((name, FRACTION) for name in ("floor_bps", "probe_gain", "limited_share", "default_weight", "rounding")),
        *((name, FRACTION) for name in ("slack", "dust")),
        *((name, NUMBER) for name in ("shortest_stretch_ns", "window_slots", "tries", "job_memory_slots")),
    )


class Estimate(ctypes.Structure):
    _fields_ = (
        *((name, FRACTION) for name in ("line_rate_bps", "probe_bps")),
        ("sent_bps", FRACTION * MOST_SAMPLES),
        ("slot", NUMBER * MOST_SAMPLES),
        ("count", NUMBER),
    )


class StretchesInC(ctypes.Structure):
    _fields_ = (
        *((name, FRACTION) for name in ("sent_bytes", "allowed_bits_ns", "fastest_bps", "fastest_limit_bps")),
        *((name, NUMBER) for name in ("busy_ns", "sampled", "whole_slots")),
    )


class Question(ctypes.Structure):
    _fields_ = (
        *((name, FRACTION) for name in ("remaining_bytes", "volume_bytes", "window_bytes", "bandwidth_bps")),
        *((name, FRACTION) for name in ("upstream_bytes", "downstream_bytes")),
        *((name, NUMBER) for name in ("horizon", "slot_ns", "left_ns", "push")),
        *((name, COLUMN) for name in ("available_bps", "load")),
    )


def planning() -> Planning:
    return Planning(
        floor_bps=FLOOR_BPS,
        probe_gain=bandwidth.PROBE_GAIN,
        limited_share=bandwidth.LIMITED_SHARE,
        default_weight=allocator.DEFAULT_WEIGHT,
        rounding=allocator.ROUNDING,
        slack=load_table.SLACK,
        dust=load_table.DUST,
        shortest_stretch_ns=bandwidth.SHORTEST_STRETCH_NS,
        window_slots=bandwidth.BandwidthEstimate(1.0).window_slots,
        tries=mlcc.TRIES,
        job_memory_slots=claims.JOB_MEMORY_SLOTS,
    )


def declared(found: ctypes.CDLL) -> ctypes.CDLL:
    """With the functions of planned.c, which all have the hosts and switches first."""
    found.planned_new.restype = COLUMN
    network, rules = ctypes.POINTER(Network), ctypes.POINTER(Planning)
    found.planned_new.argtypes = (network, rules, COLUMN, COLUMN, COLUMN, COLUMN)
    for name, result, arguments in (
        ("add_job", None, (NUMBER, NUMBER)),
        ("add_flow", None, (NUMBER, COLUMN, FRACTION, FRACTION, COLUMN, COLUMN)),
        ("touch", None, (NUMBER, NUMBER)),
        ("stop", None, (COLUMN, NUMBER)),
        ("leave", None, (NUMBER, COLUMN, NUMBER, NUMBER)),
        ("ready", None, (COLUMN, NUMBER, NUMBER, NUMBER)),
        ("done", None, (NUMBER, NUMBER)),
        ("run", None, (NUMBER,)),
        ("peak_ratio", FRACTION, ()),
        ("decisions", NUMBER, (ctypes.POINTER(ctypes.POINTER(NUMBER)),)),
        ("free", None, ()),
    ):
        function = getattr(found, f"planned_{name}")
        function.restype, function.argtypes = result, (COLUMN, *arguments)
    return found
