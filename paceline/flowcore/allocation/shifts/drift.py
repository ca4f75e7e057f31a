"""Staying where the shifts have put a job (CASSINI §4.2, step 3, and §5.7).

A job's communication is due at anchor + n·T. Noise and stragglers move it:

    late by at most TOLERANCE of T    it starts at once
    else                              it is early, or has missed its time: it waits until it is due, or due again

T is longer than an iteration alone by a slack of SIGMAS standard deviations of what its computing jitters by. Without
it every job was sooner or later more than TOLERANCE late and lost nearly an iteration, and the 99th percentile was 1.3
times that of unshifted jobs; with it that happens to few (docs/cluster.md). Letting any late job start was tried again:
jobs that met once slowed each other, were late for ever, and met for ever.

Deviation from §5.7, where 5 % of an iteration are tolerated: on the paper's dynamic trace, seeds 2 and 4, the 99th
percentile was 788 and 780 ms with 5 %, 618 and 534 with this (unshifted: 609 and 530).
"""

TOLERANCE = 0.15
ADJUSTED = 0.05  # of an iteration: what §5.7 counts as an adjustment
SIGMAS = 4.0


def wait_ns(now_ns: int, anchor_ns: int, iteration_ns: int) -> int:
    """How long a communication that is ready now has to wait; 0: start."""
    late_ns = (now_ns - anchor_ns) % iteration_ns
    return 0 if late_ns <= TOLERANCE * iteration_ns else iteration_ns - late_ns


def adjusts(now_ns: int, anchor_ns: int, iteration_ns: int) -> bool:
    """Whether a communication that is ready now is so late that §5.7 would count it. More than half an iteration late
    is early: with the slack, jobs are, and wait."""
    late_ns = (now_ns - anchor_ns) % iteration_ns
    return ADJUSTED * iteration_ns < late_ns <= iteration_ns / 2


def slack(jitter: float, compute: float, iteration: float, sigmas: float = SIGMAS) -> float:
    """By which part a job's iterations are given longer; `jitter`: the computing's relative standard deviation."""
    return sigmas * jitter * compute / iteration
