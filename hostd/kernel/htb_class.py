"""An HTB class as the bytes the kernel takes.

    tokens      a class may send while it has tokens; they are time: they grow as it passes, at most to `buffer`, and
                a packet of n bytes costs n/rate. The same again with `ceil`, for what it may borrow.
    buffer      burst / rate, in ticks of 64 ns

Declaring the link layer (1: Ethernet) makes the kernel compute costs itself instead of asking for a table of 1 KB.
RATE64 is always sent: the kernel takes the larger of it and the 32-bit field, which ends at 34 Gbit/s.
"""

import struct
from typing import NamedTuple

from hostd.kernel.netlink import Message, attribute, attributes, value_of
from paceline.flowcore.model.units import BITS_PER_BYTE, NS_PER_S

RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
TCA_KIND, TCA_OPTIONS = 1, 2
_TCA_STATS2, _STATS_BASIC, _STATS_QUEUE = 7, 1, 3
_PARMS, _RATE64, _CEIL64 = 1, 6, 7
TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_RATESPEC = "BBHhHI"  # cell_log, linklayer, overhead, cell_align, mpu, bytes per second
_OPT = struct.Struct("=" + _RATESPEC + _RATESPEC + "IIIII")  # rate, ceil, buffer, cbuffer, quantum, level, prio
_ETHERNET = 1
_TICK_NS = 64
_U32_MAX = 0xFFFF_FFFF
_AF_UNSPEC = 0

# What a class may send at once. Not less than a bundle of segments, or a class could never send one without debt; not
# less than by how much the timer of a busy machine is late, or the link stands still for the rest of that time: a
# third of this was not enough at 10 Gbit/s, where turns had no effect because nobody could fill the link. Up to 1.6
# Gbit/s a bundle of hostd's is as long (htb_device.py).
_TIMER_NS = 330_000

# Classes that borrow from the same parent take turns, each as long as its guarantee needs this long for. A class that
# was raised borrows until its debt is paid: without weights it would share the link evenly with classes that wait.

_TURN_S = 0.008


def class_message(
    ifindex: int,
    handle: int,
    parent: int,
    rate_bps: float,
    ceiling_bps: float,
    bundle_bytes: int,
    flags: int = 0,
    priority: int = 0,
) -> Message:
    """Creates the class (flags NLM_F_CREATE) or changes it in place."""
    rate, ceil = (max(1, round(bps / BITS_PER_BYTE)) for bps in (rate_bps, ceiling_bps))
    opt = _OPT.pack(
        *(0, _ETHERNET, 0, 0, 0, min(rate, _U32_MAX)),
        *(0, _ETHERNET, 0, 0, 0, min(ceil, _U32_MAX)),
        *(_ticks(rate, bundle_bytes), _ticks(ceil, bundle_bytes), _turn_bytes(rate, bundle_bytes), 0, priority),
    )
    options = attribute(_PARMS, opt)
    options += attribute(_RATE64, struct.pack("=Q", rate)) + attribute(_CEIL64, struct.pack("=Q", ceil))
    body = TCMSG.pack(_AF_UNSPEC, ifindex, handle, parent, 0)
    body += attribute(TCA_KIND, b"htb\0") + attribute(TCA_OPTIONS, options)
    return Message(RTM_NEWTCLASS, flags, body)


def rates_of(answer: bytes) -> tuple[int, float, float]:
    """(handle, rate_bps, ceiling_bps) from one answer of a class dump."""
    _, _, handle, _, _ = TCMSG.unpack_from(answer)
    options = attributes(attributes(answer[TCMSG.size :])[TCA_OPTIONS])
    opt = _OPT.unpack_from(options[_PARMS])
    rate, ceil = opt[5], opt[11]
    if _RATE64 in options:
        [rate] = struct.unpack("=Q", options[_RATE64])
    if _CEIL64 in options:
        [ceil] = struct.unpack("=Q", options[_CEIL64])
    return handle, float(rate * BITS_PER_BYTE), float(ceil * BITS_PER_BYTE)


class ClassUse(NamedTuple):
    handle: int
    sent_bytes: int  # since it was made
    waiting: bool  # packets lie in its queue


def use_of(answer: bytes) -> ClassUse:
    """From one answer of a class dump."""
    _, _, handle, _, _ = TCMSG.unpack_from(answer)
    counts = value_of(answer[TCMSG.size :], _TCA_STATS2)
    [sent_bytes] = struct.unpack_from("=Q", value_of(counts, _STATS_BASIC))
    [queued] = struct.unpack_from("=I", value_of(counts, _STATS_QUEUE))
    return ClassUse(handle, sent_bytes, queued > 0)


def _ticks(bytes_per_s: int, bundle_bytes: int) -> int:
    burst_ns = max(bundle_bytes * NS_PER_S // bytes_per_s, _TIMER_NS)
    return min(burst_ns // _TICK_NS, _U32_MAX)


def _turn_bytes(bytes_per_s: int, bundle_bytes: int) -> int:
    return min(max(bundle_bytes, round(bytes_per_s * _TURN_S)), _U32_MAX)
