"""Columns of what is known of flows and of host parts, beside the network's own: for crowds, and one cell at a time.

A part's progress is a row: a JobProgress whose numbers lie in columns, so that a crowd's bids are renewed in one pass
over arrays (crowd.py) and a single event advances one of them as a host does.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from paceline.flowcore.allocation.borrowing import Floats, Ints
from paceline.flowcore.host.progress import JobProgress, PaceColumns
from paceline.flowcore.messages.reports import Bid
from paceline.sim.kernel.flow_table import BoolCells, Bools, FloatCells, IntCells, cells, grown, grown_paths

NO_BID = Bid(0.0)
UNDECIDED = float("nan")  # equals no share
NONE = -1


class FlowCells(NamedTuple):
    share: FloatCells
    ceiling: FloatCells
    granted: FloatCells
    urgency: FloatCells
    compute_ns: FloatCells
    remaining_ns: FloatCells
    decided_ns: IntCells
    begun: IntCells
    ready_ns: IntCells


class FlowColumns:
    """By row of the network."""

    def __init__(self, beyond: int) -> None:
        self.beyond = beyond
        self.share: Floats = np.zeros(0)  # bit/s as last decided, be it still on its way ...
        self.ceiling: Floats = np.zeros(0)  # ... with its ceiling
        self.granted: Floats = np.zeros(0)  # the share of the flow's grant; UNDECIDED: it has none
        self.urgency: Floats = np.zeros(0)  # the flow's bid, as the arbiter knows it
        self.compute_ns: Floats = np.zeros(0)
        self.remaining_ns: Floats = np.zeros(0)
        self.decided_ns: Ints = np.zeros(0, np.int64)  # when that was decided which is in force
        self.begun: Ints = np.zeros(0, np.int64)  # iterations: a decision for an earlier one is void
        self.ready_ns: Ints = np.zeros(0, np.int64)  # since when its bytes have been waiting
        self.nic_bps: Floats = np.zeros(0)
        self.host: Ints = np.zeros(0, np.int64)
        self.part: Ints = np.zeros(0, np.int64)  # the row of its host part; NONE: there is no flow
        self.seen: Ints = np.zeros((0, 1), np.int64)  # what the policy sees of the path, filled up with `beyond`
        self._grow(1, 1)

    def _grow(self, rows: int, hops: int) -> None:
        for name in ("share", "ceiling", "granted", "urgency", "compute_ns", "remaining_ns", "nic_bps"):
            setattr(self, name, grown(getattr(self, name), rows, 0.0))
        for name in ("decided_ns", "begun", "ready_ns", "host"):
            setattr(self, name, grown(getattr(self, name), rows, 0))
        self.part = grown(self.part, rows, NONE)
        self.seen = grown_paths(self.seen, rows, hops, self.beyond)
        columns = (self.share, self.ceiling, self.granted, self.urgency, self.compute_ns, self.remaining_ns)
        self.cells = FlowCells(*map(cells, (*columns, self.decided_ns, self.begun, self.ready_ns)))

    def put(self, rows: int, number: int, seen: Sequence[int], host: int, part: int, nic_bps: float) -> None:
        """`rows`: as many as the network has by now."""
        hops = self.seen.shape[1]
        if rows > len(self.share) or len(seen) > hops:
            self._grow(max(rows, len(self.share)), max(hops, len(seen)))
        self.granted[number], self.decided_ns[number], self.nic_bps[number] = UNDECIDED, 0, nic_bps
        self.host[number], self.part[number] = host, part
        self.seen[number] = self.beyond
        self.seen[number, : len(seen)] = seen
        self.put_bid(number, NO_BID)

    def put_bid(self, number: int, bid: Bid) -> None:
        cells = self.cells
        cells.urgency[number], cells.compute_ns[number], cells.remaining_ns[number] = bid

    def bid(self, number: int) -> Bid:
        cells = self.cells
        return Bid(cells.urgency[number], cells.compute_ns[number], cells.remaining_ns[number])


class PartCells(NamedTuple):
    pace: FloatCells
    updated_ns: IntCells
    compute_ns: FloatCells
    alone_comm_ns: FloatCells
    bursts: IntCells
    communicating: BoolCells
    counted_bytes: FloatCells
    bid_ns: IntCells


class PartColumns:
    """By row of a host part."""

    def __init__(self) -> None:
        self.pace: Floats = np.zeros(0)  # the fields of JobProgress
        self.updated_ns: Ints = np.zeros(0, np.int64)
        self.compute_ns: Floats = np.zeros(0)
        self.alone_comm_ns: Floats = np.zeros(0)
        self.bursts: Ints = np.zeros(0, np.int64)
        self.communicating: Bools = np.zeros(0, np.bool_)
        self.counted_bytes: Floats = np.zeros(0)  # that the flows of the part had sent when it was last credited
        self.bid_ns: Ints = np.zeros(0, np.int64)  # when it last bid for all that is claimed
        self.size_bytes: Floats = np.zeros(0)
        self.weight: Floats = np.zeros(0)  # its job's ...
        self.iterations: Floats = np.zeros(0)  # ... that it will do
        self.tor: Ints = np.zeros(0, np.int64)
        self.delay_ns: Ints = np.zeros(0, np.int64)  # its contender's
        self._free: list[int] = []
        self._grow(64)

    def _grow(self, rows: int) -> None:
        self._free += range(len(self.pace), rows)
        for name in ("pace", "compute_ns", "alone_comm_ns", "counted_bytes", "size_bytes", "weight", "iterations"):
            setattr(self, name, grown(getattr(self, name), rows, 0.0))
        for name in ("updated_ns", "bursts", "bid_ns", "tor", "delay_ns"):
            setattr(self, name, grown(getattr(self, name), rows, 0))
        self.communicating = grown(self.communicating, rows, False)
        columns = (self.pace, self.updated_ns, self.compute_ns, self.alone_comm_ns, self.bursts, self.communicating)
        self.cells = PartCells(*map(cells, (*columns, self.counted_bytes, self.bid_ns)))

    def new(self, tor: int, bid_ns: int) -> int:
        if not self._free:
            self._grow(2 * len(self.pace))
        row = self._free.pop()
        self.tor[row], self.bid_ns[row], self.counted_bytes[row], self.size_bytes[row] = tor, bid_ns, 0.0, 0.0
        return row

    def paces(self, rows: Ints) -> PaceColumns:
        """Of these rows, to be credited."""
        return PaceColumns(
            pace=self.pace[rows],
            updated_ns=self.updated_ns[rows],
            bursts=self.bursts[rows],
            compute_ns=self.compute_ns[rows],
            alone_comm_ns=self.alone_comm_ns[rows],
            communicating=self.communicating[rows],
            weight=self.weight[rows],
        )

    def free(self, row: int) -> None:
        self._free.append(row)


def _cell(place: int) -> Any:
    """Of the part's row, in this one of the columns."""

    def read(self: Any) -> Any:
        return self._columns.cells[place][self._row]

    def write(self: Any, value: Any) -> None:
        self._columns.cells[place][self._row] = value

    return property(read, write)


class ProgressRow(JobProgress):
    """A JobProgress over the columns."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: PartColumns, row: int, now_ns: int, weight: float = 1.0, iterations: int = 0) -> None:
        self._columns, self._row = columns, row
        columns.weight[row], columns.iterations[row] = weight, iterations
        super().__init__(now_ns, weight, iterations)

    _pace, _updated_ns, compute_ns, alone_comm_ns, bursts, communicating = map(_cell, range(6))
