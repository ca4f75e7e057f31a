"""The same steps as in steps.py, in C (network.c): about fifty times faster where ten flows send."""

import ctypes

import numpy as np
import numpy.typing as npt

from paceline.flowcore.allocation.fairshare import collision_factor
from paceline.sim.kernel import steps
from paceline.sim.kernel.feeds import AllFeeds
from paceline.sim.kernel.flow_table import NetworkTable
from paceline.sim.kernel.library import Network
from paceline.sim.kernel.steps import Events
from paceline.sim.parameters import CAUGHT_UP_BYTES, DEPENDENCY_ROUNDS, HTB_ROUNDS, LOCAL_BPS

Array = npt.NDArray[np.generic]

_COLUMNS = (
    *("size", "window", "grain", "piece", "sent", "goal", "rate", "firm", "ceiling", "stands", "mark"),
    *("live", "paced", "job", "path"),
)
_OF_ROWS = (
    *("before", "limits", "wanted", "allowed", "shares", "base", "more", "firm_of", "may_send"),
    *("highest", "weights"),
)
_NUMBERS_OF_ROWS = ("growing", "members", "solved", "ended", "end_ns", "marked")
_OF_LINKS = ("level", "carried", "nic_left")
_FILLING_COLUMNS = 8
_NUMBERS_OF_LINKS = ("on_link", "active", "last_job")


class CompiledSteps:
    def __init__(self, table: NetworkTable, library: ctypes.CDLL) -> None:
        self.table = table
        self._library = library
        self._arrays: dict[str, Array] = {}  # what C has pointers to
        self._feeds: AllFeeds | None = None  # those that C knows
        links = len(table.capacity_bps)
        self.network = Network(
            links=links,
            start_after=table.start_after,
            fixed_step_ns=-1 if table.fixed_step_ns is None else table.fixed_step_ns,
            step_ns_per_flow=steps.STEP_NS_PER_FLOW,
            shortest_step_ns=steps.SHORTEST_STEP_NS,
            longest_min_step_ns=steps.LONGEST_MIN_STEP_NS,
            shortest_to_change_ns=steps.SHORTEST_TO_CHANGE_NS,
            coarse_step_ns=steps.COARSE_STEP_NS,
            unconverged_step_ns=steps.UNCONVERGED_STEP_NS,
            longest_step_ns=steps.LONGEST_STEP_NS,
            crowd=steps.CROWD,
            dependency_rounds=DEPENDENCY_ROUNDS,
            htb_rounds=HTB_ROUNDS,
            caught_up_bytes=CAUGHT_UP_BYTES,
            rounding_bytes=steps.ROUNDING_BYTES,
            converged_part=steps.CONVERGED,
            local_bps=LOCAL_BPS,
            weighted=table.aggressiveness is not None,
            stale=True,
            converged=True,
        )
        if table.aggressiveness is not None:
            self.network.slope, self.network.intercept = table.aggressiveness
        self._address = ctypes.byref(self.network)
        self._bind("capacity", table.capacity_bps)
        for name in _OF_LINKS:
            self._bind(name, np.zeros(links))
        for name in _NUMBERS_OF_LINKS:
            self._bind(name, np.zeros(links, np.int64))
        self._bind("filling", np.zeros(links * _FILLING_COLUMNS))
        self._bind("seen", np.zeros(links, np.bool_))
        self._bind_rows()

    def _bind(self, name: str, array: Array) -> None:
        assert array.flags.c_contiguous
        self._arrays[name] = array
        setattr(self.network, name, array.ctypes.data)

    def _bind_rows(self) -> None:
        table, (rows, hops) = self.table, self.table.path.shape
        self.network.rows, self.network.hops = rows, hops
        for name in _COLUMNS:
            self._bind(name, getattr(table, name))
        solved = self._arrays.get("solved")
        for name in _OF_ROWS:
            self._bind(name, np.zeros(rows))
        for name in _NUMBERS_OF_ROWS:
            self._bind(name, np.zeros(rows, np.int64))
        if solved is not None:
            self._arrays["solved"][: len(solved)] = solved
        self._bind("hop", np.zeros(rows * (hops + 1), np.int64))
        if table.contention:
            self._bind("pairs", np.zeros(2 * rows * hops, np.int64))
            jobs = np.maximum(np.arange(rows + 1), 1)
            self._bind("contention", np.asarray(collision_factor(jobs, table.contention)))

    def _bind_feeds(self, feeds: AllFeeds) -> None:
        self._feeds = feeds
        self.network.feeds, self.network.fed_flows = len(feeds.first_upstream), len(feeds.fed)
        self._bind("first_upstream", np.append(feeds.first_upstream, len(feeds.upstream)))
        for name in ("upstream", "fed", "by", "upstream_grain"):
            self._bind(name, getattr(feeds, name))
        self._bind("slowest", np.zeros(len(feeds.first_upstream)))

    def grown(self) -> None:
        """The table may have grown since, and jobs may have come or left."""
        if self._arrays["path"] is not self.table.path:
            self._bind_rows()
        if self._feeds is not (feeds := self.table.feeds):
            self._bind_feeds(feeds)
        self.network.rows = self.table.used_rows  # those behind were never used

    @property
    def now_ns(self) -> int:
        return int(self.network.now_ns)

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self.network.now_ns = now_ns

    def changed(self) -> None:
        self.network.stale = 1

    @property
    def steps(self) -> int:
        return int(self.network.steps)

    @property
    def flow_steps(self) -> int:
        return int(self.network.flow_steps)

    def sending(self) -> int:
        self.grown()
        return int(self._library.sending(self._address))

    def run(self, event_ns: int, control_ns: int, until_ns: int) -> Events:
        self.grown()
        network = self.network
        self._library.run(self._address, event_ns, control_ns, until_ns)
        ended, marked = network.ended_flows, network.marked_flows
        return Events(
            list(zip(self._first("end_ns", ended), self._first("ended", ended), strict=True)) if ended else [],
            self._first("marked", marked) if marked else [],
        )

    def _first(self, name: str, count: int) -> list[int]:
        found: list[int] = self._arrays[name][:count].tolist()
        return found
