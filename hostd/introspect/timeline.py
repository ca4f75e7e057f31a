"""What this host's jobs sent in each of the last slots, for people who watch: `paceline web` asks for what is new.

A slot that hostd slept through is missing. It is kept by reference: every sample of the throughput is a new mapping.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import takewhile

from paceline.flowcore.model.patterns import FlowId

SLOTS = 1024  # a minute of 60 ms


class Timeline:
    def __init__(self) -> None:
        self._slots: deque[tuple[int, Mapping[FlowId, float]]] = deque(maxlen=SLOTS)

    def note(self, slot: int, rates_bps: Mapping[FlowId, float]) -> None:
        if self._slots and slot <= self._slots[-1][0]:
            self._slots.clear()  # the clock was set back
        self._slots.append((slot, rates_bps))

    def since(self, slot: int) -> list[tuple[int, dict[str, int]]]:
        """The slots after this one, and what each job sent in them, in bits per second."""
        new = list(takewhile(lambda one: one[0] > slot, reversed(self._slots)))
        return [(at, dict(_by_job(rates_bps))) for at, rates_bps in reversed(new)]


def _by_job(rates_bps: Mapping[FlowId, float]) -> Iterator[tuple[str, int]]:
    sums: dict[str, float] = {}
    for flow, bps in rates_bps.items():
        sums[flow.job] = sums.get(flow.job, 0.0) + bps
    return ((job, round(bps)) for job, bps in sums.items() if bps > 0.0)
