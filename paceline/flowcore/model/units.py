"""The one place where units are converted.

Inside flowcore time is integer nanoseconds, volume is bytes and rate is bits per second; people write
seconds, megabytes and gigabits per second. 1 MB is 10^6 bytes and 1 Gbit/s is 10^9 bit/s, as in the papers.

Law: a transfer is never declared finished early,

    transfer_bytes(rate, transfer_ns(size, rate)) >= size

for every transfer of less than 2^50 ns (13 days), beyond which a float no longer resolves one nanosecond.
"""

import math

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
BITS_PER_BYTE = 8
BYTES_PER_MB = 1e6
BPS_PER_GBPS = 1e9

LONGEST_NS = 2**62  # 146 years
PAYLOAD_SHARE = 1448 / 1514  # of TCP in a full Ethernet frame
UNLIMITED = math.inf  # no limit is known or set; of a rate or of a volume

# bytes = bit/s x ns / this
_BIT_NS_PER_BYTE_S = BITS_PER_BYTE * NS_PER_S


def ns_from_s(duration_s: float) -> int:
    """Nearest whole nanosecond."""
    return round(duration_s * NS_PER_S)


def ns_from_ms(duration_ms: float) -> int:
    """Nearest whole nanosecond."""
    return round(duration_ms * NS_PER_MS)


def s_from_ns(duration_ns: int) -> float:
    return duration_ns / NS_PER_S


def bps_from_gbps(rate_gbps: float) -> float:
    return rate_gbps * BPS_PER_GBPS


def gbps_from_bps(rate_bps: float) -> float:
    return rate_bps / BPS_PER_GBPS


def bytes_from_mb(size_mb: float) -> float:
    return size_mb * BYTES_PER_MB


def transfer_bytes(rate_bps: float, duration_ns: int) -> float:
    """Volume sent at a constant rate."""
    return rate_bps * duration_ns / _BIT_NS_PER_BYTE_S


def transfer_ns(size_bytes: float, rate_bps: float) -> int:
    """Time to send a volume at a constant rate, rounded up; ZeroDivisionError at rate 0: it never ends. At a rate so
    low that it ends beyond all clocks it is LONGEST_NS."""
    exact_ns = size_bytes * _BIT_NS_PER_BYTE_S / rate_bps
    if exact_ns >= LONGEST_NS:
        return LONGEST_NS
    duration_ns = math.ceil(exact_ns)
    # The quotient may have been rounded down onto a whole number; without this a remainder of 1e-9 bytes
    # would need an event of its own.
    if transfer_bytes(rate_bps, duration_ns) < size_bytes:
        duration_ns += 1
    return duration_ns


def rate_bps(size_bytes: float, duration_ns: int) -> float:
    """Mean rate of a volume sent in a time."""
    return size_bytes * _BIT_NS_PER_BYTE_S / duration_ns
