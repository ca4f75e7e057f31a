"""The mean pace of a job, P, and learned times: the same rule for the host, which sees bytes, and for the switch, which
sees what it gives (host/progress.py has the equation).
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MEMORY_ITERATIONS = 10.0

# Urgency is bounded: a job bids with its slowdown, and one that crawls for a reason of its own must not outbid all
# others together for ever. The bound is the same whatever the job's weight, √ω·ŝ ≤ 256: with one that grew with it,
# heavy jobs that are slow would keep a light one from the links for ever.
LEAST_PACE = 1 / 256

# Weight of the newest iteration in a learned time: jitter averages out, a new batch size is learned in a handful of
# iterations.
GAIN = 0.25


def mean_pace(mean: float, pace: float, elapsed: float, alone: float, weight: float = 1.0) -> float:
    """The mean after `elapsed` at this pace; `alone`: an iteration's length alone, T⁰."""
    kept = math.exp(-elapsed / (MEMORY_ITERATIONS * alone))
    return min(1.0, max(LEAST_PACE * math.sqrt(weight), kept * mean + (1.0 - kept) * pace))


def mean_paces(mean: Floats, pace: Floats, elapsed: Floats, alone: Floats, weight: Floats) -> Floats:
    """The same of many jobs."""
    kept = np.exp(-elapsed / (MEMORY_ITERATIONS * alone))
    return np.clip(kept * mean + (1.0 - kept) * pace, LEAST_PACE * np.sqrt(weight), 1.0)


def learned(known: float, measured: float) -> float:
    """0: not known yet."""
    return known + GAIN * (measured - known) if known else measured
