"""MLTCP (mltcp.bpf.c) in the kernel, and what it must be told of a socket."""

import struct
from dataclasses import dataclass
from pathlib import Path

from hostd.congestion.libbpf import BpfControl
from paceline.flowcore.allocation.aggressiveness import PAPER

OBJECT = Path(__file__).with_name("mltcp.bpf.o")
NAME = "mltcp"

PAUSE = 0.9  # of the compute time: a pause so long is the end of an iteration

_ITERATION = struct.Struct("=QQIIQQ")


@dataclass(frozen=True, slots=True)
class Iteration:
    """Of the part of a job that one socket carries."""

    size_bytes: float
    compute_s: float
    slope: float = PAPER.slope
    intercept: float = PAPER.intercept

    def packed(self) -> bytes:
        milli = (round(1000 * self.slope), round(1000 * self.intercept))
        return _ITERATION.pack(round(self.size_bytes), round(PAUSE * self.compute_s * 1e9), *milli, 0, 0)


class Mltcp(BpfControl):
    """Raises BpfError where it cannot be had."""

    def __init__(self) -> None:
        super().__init__(OBJECT, NAME)

    def tell(self, descriptor: int, iteration: Iteration) -> None:
        """What the socket behind this descriptor carries; raises OSError."""
        self._tell("iterations", descriptor, iteration.packed())
