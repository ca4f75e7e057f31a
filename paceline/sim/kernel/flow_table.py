"""The table of flows of the array engine: one row per flow, one column per quantity.

Rows of flows that have left are used again; rows that were never used hold the defaults of `grow`.
A path is filled up with `beyond`, the number of a link of infinite capacity that no path really has.
"""

import math
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from paceline.flowcore.allocation.aggressiveness import Aggressiveness
from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.sim.kernel.feeds import AllFeeds, Feeds, all_feeds, with_job

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


class FloatCells(Protocol):
    def __getitem__(self, row: int, /) -> float: ...
    def __setitem__(self, row: int, value: float, /) -> None: ...


class IntCells(Protocol):
    def __getitem__(self, row: int, /) -> int: ...
    def __setitem__(self, row: int, value: int, /) -> None: ...


class BoolCells(Protocol):
    def __getitem__(self, row: int, /) -> bool: ...
    def __setitem__(self, row: int, value: bool, /) -> None: ...


class Cells(NamedTuple):
    """Columns to read and write one cell at a time, as plain numbers: numpy's own way is several times slower."""

    sent: FloatCells
    goal: FloatCells
    firm: FloatCells
    ceiling: FloatCells
    stands: FloatCells
    mark: FloatCells
    live: BoolCells
    paced: BoolCells


def cells(column: npt.NDArray[Any]) -> Any:
    """A column's memory, one cell at a time."""
    return column.data


class FlowTable:
    def __init__(self, beyond: int) -> None:
        self.beyond = beyond
        self.size: Floats = np.zeros(0)  # bytes of one iteration
        self.window: Floats = np.zeros(0)  # W: bytes that the flow may be ahead of its upstream
        self.grain: Floats = np.zeros(0)  # bytes that are forwarded in one piece; 0: as they come
        self.piece: Floats = np.zeros(0)  # bytes after which its weight changes; 0: plain TCP, with weight 1
        self.sent: Floats = np.zeros(0)  # F: bytes over all iterations
        self.goal: Floats = np.zeros(0)  # F at which the current iteration is through
        self.rate: Floats = np.zeros(0)  # bit/s, in this step
        self.firm: Floats = np.zeros(0)  # bit/s that HTB guarantees
        self.ceiling: Floats = np.zeros(0)  # bit/s that HTB lets the flow borrow up to
        self.stands: Floats = np.zeros(0)  # for so many flows of TCP it counts
        self.mark: Floats = np.zeros(0)  # F at which the driver wants to be told, once; inf: nowhere
        self.live: Bools = np.zeros(0, np.bool_)  # has bytes to send
        self.paced: Bools = np.zeros(0, np.bool_)  # has a limit in force
        self.job: Ints = np.zeros(0, np.int64)  # the index of its job
        self.path: Ints = np.zeros((0, SHORTEST_PATH), np.int64)  # its links, from the host's NIC on
        self.grow(FEWEST_ROWS, SHORTEST_PATH)

    @property
    def rows(self) -> int:
        return len(self.size)

    @property
    def used_rows(self) -> int:
        """Those behind were never used."""
        return self.rows

    def grow(self, rows: int, hops: int) -> None:
        self.size = grown(self.size, rows, 0.0)
        self.window = grown(self.window, rows, 0.0)
        self.grain = grown(self.grain, rows, 0.0)
        self.piece = grown(self.piece, rows, 0.0)
        self.sent = grown(self.sent, rows, 0.0)
        self.goal = grown(self.goal, rows, 0.0)
        self.rate = grown(self.rate, rows, 0.0)
        self.firm = grown(self.firm, rows, 0.0)
        self.ceiling = grown(self.ceiling, rows, math.inf)
        self.stands = grown(self.stands, rows, 1.0)
        self.mark = grown(self.mark, rows, math.inf)
        self.live = grown(self.live, rows, False)
        self.paced = grown(self.paced, rows, False)
        self.job = grown(self.job, rows, -1)
        self.path = grown_paths(self.path, rows, hops, self.beyond)
        columns = (self.sent, self.goal, self.firm, self.ceiling, self.stands, self.mark, self.live, self.paced)
        self.cells = Cells(*map(cells, columns))


class NetworkTable(FlowTable):
    """With the links, the feeds, and what else a step depends on."""

    def __init__(
        self,
        capacity_bps: Floats,
        step_ns: int | None,
        *,
        start_after: bool = False,
        contention: float = 0.0,
        aggressiveness: Aggressiveness | None = None,
    ) -> None:
        """`capacity_bps`: of every link, and last of `beyond`. `step_ns`: None is longer with more flows."""
        super().__init__(beyond=len(capacity_bps) - 1)
        self.capacity_bps = capacity_bps
        self.fixed_step_ns = step_ns
        self.start_after, self.contention, self.aggressiveness = start_after, contention, aggressiveness
        self.feeds_of_jobs: dict[str, Feeds] = {}
        self._all_feeds: AllFeeds | None = None  # None: jobs came or left since

    @property
    def feeds(self) -> AllFeeds:
        if self._all_feeds is None:
            self._all_feeds = all_feeds(tuple(self.feeds_of_jobs.values()), self.grain)
        return self._all_feeds

    def put_feeds(self, job: str, feeds: Feeds) -> None:
        known = self._all_feeds if job not in self.feeds_of_jobs else None
        self.feeds_of_jobs[job] = feeds
        self._all_feeds = None if known is None else with_job(known, feeds, self.grain)

    def drop_feeds(self, job: str) -> None:
        del self.feeds_of_jobs[job]
        self._all_feeds = None
