"""Flows of a job without sockets, as one over RDMA: what its net plugin hands to the transport, by address.

Bytes count when NCCL has handed them over, at most a few chunks before they are on the wire. Addresses that are no
host's, and the host's own, are left out, as sockets that lead there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf

from hostd.kernel.socket_search import LEAST_DATA_BYTES
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD
from nccl_shim.segment.layout import Kind, address_text
from nccl_shim.segment.reader import ProcessView
from paceline.flowcore.demand.facts import LEAST_PART, Ends
from paceline.flowcore.model.patterns import Role

TOLD_BYTES = LEAST_DATA_BYTES / LEAST_PART  # of data: by then a socket that carries it is one of data by itself


class CountedFlows:
    def __init__(self) -> None:
        self._host_of: Mapping[str, str] = {}
        self._host = ""

    def know(self, host_of: Mapping[str, str], host: str) -> None:
        """The hosts by address, and this host's name."""
        self._host_of, self._host = host_of, host

    def sent_bytes(self, views: Iterable[ProcessView]) -> dict[Ends, float]:
        """By now, on the wire."""
        sent: dict[Ends, float] = {}
        for _, _, target, size in self._records(views):
            sent[Role.RING, target] = sent.get((Role.RING, target), 0.0) + size * WIRE_PER_PAYLOAD
        return sent

    def peers(self, views: Iterable[ProcessView], target: str) -> frozenset[tuple[int, str]]:
        """Processes that send there, and to which address."""
        return frozenset((pid, address) for pid, address, host, _ in self._records(views) if host == target)

    def _records(self, views: Iterable[ProcessView]) -> Iterator[tuple[int, str, str, int]]:
        for view in views:
            for flow in view.snapshot.flows:
                if flow.kind is not Kind.ADDRESS or view.host_pid is None or not any(flow.address):
                    continue
                address = _text(flow.address)
                target = self._host_of.get(address)
                if target is not None and target != self._host:
                    yield view.host_pid, address, target, flow.enqueued_bytes


_text = lru_cache(4096)(address_text)  # a job writes whichever it likes


class Control:
    """Whether a job's sockets carry less than LEAST_PART of what its net plugin counts: what it agrees on over TCP
    beside RDMA, and no data."""

    def __init__(self) -> None:
        self.only = False
        self._counted_bytes = self._socket_bytes = inf  # when it was last told; at first: not yet

    def observe(self, counted_bytes: float, socket_bytes: float) -> bool:
        """Both by now; whether it is otherwise than before."""
        before, counted, carried = self.only, counted_bytes - self._counted_bytes, socket_bytes - self._socket_bytes
        if counted < 0 or carried < 0:  # the first time, or processes have ended, and their counts with them
            self._counted_bytes, self._socket_bytes = counted_bytes, socket_bytes
        elif counted >= TOLD_BYTES:
            self.only = carried < LEAST_PART * counted
            self._counted_bytes, self._socket_bytes = counted_bytes, socket_bytes
        return self.only != before
