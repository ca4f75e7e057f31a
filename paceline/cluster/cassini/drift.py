"""Staying where the shifts have put a job (CASSINI §4.2, step 3, and §5.7).

A job's communication is due at anchor + n·T. Noise and stragglers move it; as long as it starts within TOLERANCE of an
iteration from where it should, nothing is done; else it waits for the next time it is due.
"""

TOLERANCE = 0.05


def wait_ns(now_ns: int, anchor_ns: int, iteration_ns: int) -> int:
    """How long a communication that is ready now has to wait; 0: start."""
    late_ns = (now_ns - anchor_ns) % iteration_ns
    early_ns = iteration_ns - late_ns
    return 0 if min(late_ns, early_ns) <= TOLERANCE * iteration_ns else early_ns
