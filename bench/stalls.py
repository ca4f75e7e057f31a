"""Stalls of the machine itself: when a core that should have run was not there (after jHiccup).

A virtual machine's cores are threads of another machine: now and then one stands still, or crawls. A measurement of
milliseconds must know when, or it measures that. One process per core only sleeps, counts to a few thousand, and notes
how late it woke and how long the counting took; with real-time priority, where that is allowed, because then neither
depends on the load that is being measured.

    stalled   woke STALL_S late, or counted SLOW times as long as usual
"""

import json
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.child_process import start_child

SLEEP_S = 0.004
COUNT = 2000
STALL_S = 0.010
REAL_TIME, ORDINARY = "real-time", "ordinary"  # the sleeper's first line: its priority
MOST_CORES = 8  # to watch; of a large machine some stand for all
SLOW = 4.0


class Sample(NamedTuple):
    """One sleep; perf_counter's time, which all processes share."""

    begin_s: float
    woke_s: float
    end_s: float

    @property
    def late_s(self) -> float:
        return self.woke_s - self.begin_s - SLEEP_S


class Stalls:
    """What the sleepers found; filled when they have ended."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.seconds = 0.0  # watched, over all cores
        self.spans_s: list[tuple[float, float]] = []
        self.reliable = True  # the sleepers had real-time priority: what they found is the machine's, not the load's

    def add(self, samples: Sequence[Sample]) -> None:
        """The samples of one core."""
        if not samples:
            return
        self.late_ms += [1e3 * sample.late_s for sample in samples]
        self.seconds += samples[-1].end_s - samples[0].begin_s
        usual_s = median(sample.end_s - sample.woke_s for sample in samples)
        spans_s: list[tuple[float, float]] = []
        for sample in samples:
            if sample.late_s >= STALL_S or sample.end_s - sample.woke_s >= SLOW * usual_s:
                begin_s = sample.begin_s
                if spans_s and begin_s - spans_s[-1][1] < STALL_S:
                    begin_s = spans_s.pop()[0]  # still the same stall
                spans_s.append((begin_s, sample.end_s))
        self.spans_s = sorted(self.spans_s + [span for span in spans_s if span[1] - span[0] >= STALL_S])

    @property
    def percent(self) -> float:
        """Of the cores' time."""
        return 100 * sum(end_s - begin_s for begin_s, end_s in self.spans_s) / self.seconds if self.seconds else 0.0

    @property
    def late_p99_ms(self) -> float:
        return float(np.percentile(self.late_ms, 99)) if self.late_ms else 0.0

    def during(self, begin_s: float, end_s: float) -> bool:
        """Whether a core stalled at some time in between."""
        longest_s = max((end - begin for begin, end in self.spans_s), default=0.0)
        first, last = bisect_left(self.spans_s, (begin_s - longest_s,)), bisect_left(self.spans_s, (end_s,))
        return any(end > begin_s for _, end in self.spans_s[first:last])


@contextmanager
def watching_stalls() -> Iterator[Stalls]:
    """From here to the end of the block."""
    found = Stalls()
    commands = [[sys.executable, "-m", "bench.stalls", str(cpu)] for cpu in _cores()]
    sleepers: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            sleepers.append(start_child(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        for sleeper in sleepers:
            assert sleeper.stdout is not None
            found.reliable &= sleeper.stdout.readline().strip() == REAL_TIME
        yield found
    finally:
        for sleeper in sleepers:
            sleeper.terminate()
            printed, _ = sleeper.communicate()
            *_, last = printed.splitlines() or ["[]"]  # its first line, where we were interrupted before reading it
            found.add([Sample(*sample) for sample in json.loads(last)] if last.startswith("[") else [])


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:MOST_CORES]


def _sleep(cpu: int) -> None:
    """Until terminated."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        priority = REAL_TIME
    except OSError:
        priority = ORDINARY
    print(priority, flush=True)
    samples: list[Sample] = []
    while not ended:
        begin_s = time.perf_counter()
        time.sleep(SLEEP_S)
        woke_s = time.perf_counter()
        sum(range(COUNT))
        samples.append(Sample(begin_s, woke_s, time.perf_counter()))
    print(json.dumps(samples))


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the parent has ended
        _sleep(int(sys.argv[1]))
