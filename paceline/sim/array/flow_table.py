"""The table of flows of the array engine: one row per flow, one column per quantity.

Rows of flows that have left are used again; rows that were never used hold the defaults of `grow`.
A path is filled up with `beyond`, the number of a link of infinite capacity that no path really has.
"""

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from paceline.flowcore.allocation.borrowing import Floats, Ints

FEWEST_ROWS = 64
SHORTEST_PATH = 2  # up from a host and down to another one

T = TypeVar("T", bound=np.generic)
Bools = npt.NDArray[np.bool_]


def grown(column: npt.NDArray[T], rows: int, default: float) -> npt.NDArray[T]:
    """The column with so many rows; what it held stays, new rows have the default."""
    fresh = np.full(rows, default, column.dtype)
    fresh[: len(column)] = column
    return fresh


def grown_paths(paths: Ints, rows: int, hops: int, default: int) -> Ints:
    """Paths are a column of rows: one link number per hop."""
    fresh = np.full((rows, hops), default, np.int64)
    fresh[: paths.shape[0], : paths.shape[1]] = paths
    return fresh


class FlowTable:
    def __init__(self, beyond: int) -> None:
        self.beyond = beyond
        self.size: Floats = np.zeros(0)  # bytes of one iteration
        self.window: Floats = np.zeros(0)  # W: bytes that the flow may be ahead of its upstream
        self.grain: Floats = np.zeros(0)  # bytes that are forwarded in one piece; 0: as they come
        self.sent: Floats = np.zeros(0)  # F: bytes over all iterations
        self.goal: Floats = np.zeros(0)  # F at which the current iteration is through
        self.rate: Floats = np.zeros(0)  # bit/s, in this step
        self.firm: Floats = np.zeros(0)  # bit/s that HTB guarantees
        self.ceiling: Floats = np.zeros(0)  # bit/s that HTB lets the flow borrow up to
        self.live: Bools = np.zeros(0, np.bool_)  # has bytes to send
        self.paced: Bools = np.zeros(0, np.bool_)  # has a limit in force
        self.job: Ints = np.zeros(0, np.int64)  # the index of its job
        self.path: Ints = np.zeros((0, SHORTEST_PATH), np.int64)  # its links, from the host's NIC on
        self.grow(FEWEST_ROWS, SHORTEST_PATH)

    @property
    def rows(self) -> int:
        return len(self.size)

    def grow(self, rows: int, hops: int) -> None:
        self.size = grown(self.size, rows, 0.0)
        self.window = grown(self.window, rows, 0.0)
        self.grain = grown(self.grain, rows, 0.0)
        self.sent = grown(self.sent, rows, 0.0)
        self.goal = grown(self.goal, rows, 0.0)
        self.rate = grown(self.rate, rows, 0.0)
        self.firm = grown(self.firm, rows, 0.0)
        self.ceiling = grown(self.ceiling, rows, math.inf)
        self.live = grown(self.live, rows, False)
        self.paced = grown(self.paced, rows, False)
        self.job = grown(self.job, rows, -1)
        self.path = grown_paths(self.path, rows, hops, self.beyond)
