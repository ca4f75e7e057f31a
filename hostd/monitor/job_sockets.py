"""A job's sockets on this host, by role and the host they lead to, and what they have carried.

Forked processes inherit sockets, and a process may have copies. Each socket counts once: through the descriptor it was
found by before, while that is there. Sockets that have sent nothing yet are read less often than those that send: they
tell which hosts feed the job.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from hostd.kernel.calls import counters_of
from hostd.kernel.flow_meter import FlowMeter
from hostd.kernel.sockets import DataSocket, by_host
from hostd.kernel.tcp_info import WIRE_PER_PAYLOAD, TcpCounters
from paceline.flowcore.demand.facts import Ends
from paceline.flowcore.model.patterns import Role

ByEnds = dict[Ends, tuple[DataSocket, ...]]
OfProcess = tuple[Role, Iterable[DataSocket]]  # its role in the job, and its sockets


class Carried(NamedTuple):
    """Bytes on the wire since the sockets were first seen."""

    sent_bytes: dict[Ends, float]
    received_bytes: dict[Ends, float]
    waiting_bytes: dict[Ends, float]  # that sockets hold, and the network has not taken


class JobSockets:
    def __init__(self) -> None:
        self.sending: ByEnds = {}
        self.receiving: ByEnds = {}  # have sent nothing yet
        self.connections: frozenset[int] = frozenset()  # both, by cookie
        self._sent_meters: dict[Ends, FlowMeter] = {}
        self._received_meters: dict[Ends, FlowMeter] = {}  # of those that had sent nothing yet

    @property
    def waiting_bytes(self) -> int:
        """Written by the job and not yet handed to the network, when they were last read."""
        return sum(meter.waiting_bytes for meter in self._sent_meters.values())

    @property
    def taken_bytes(self) -> int:
        """By all that send, from the job, when they were last read."""
        return self.waiting_bytes + sum(meter.sent_bytes for meter in self._sent_meters.values())

    @property
    def lost(self) -> int:
        """Readings of sending sockets that failed so far."""
        return sum(meter.lost for meter in self._sent_meters.values())

    @property
    def late(self) -> bool:
        """They were read just now, and not all have answered."""
        return any(meter.late for meter in self._sent_meters.values())

    @property
    def last_read(self) -> dict[int, TcpCounters]:
        """Of those that send, by cookie."""
        return dict(chain.from_iterable(meter.last_read.items() for meter in self._sent_meters.values()))

    def all(self) -> Iterator[DataSocket]:
        return chain.from_iterable((*self.sending.values(), *self.receiving.values()))

    def found(
        self, sending: Iterable[OfProcess], receiving: Iterable[OfProcess], host_of: Mapping[str, str], host: str
    ) -> set[Ends]:
        """These are there now; returns where those that send have changed."""
        before, self.sending = self.sending, _by_ends(self.sending, sending, host_of, host)
        self.receiving = _by_ends(self.receiving, receiving, host_of, host)
        self.connections = frozenset(one.cookie for one in self.all())
        for ends in self.sending.keys() & self._received_meters.keys():
            self._sent_meters.setdefault(ends, FlowMeter()).take_over(self._received_meters[ends])
        self._read_receiving()
        return {ends for ends, them in self.sending.items() if them != before.get(ends)}

    def measure(self, receiving_too: bool) -> Carried:
        """What they have carried by now; `receiving_too`: those that have sent nothing yet are read, too."""
        sent: dict[Ends, float] = {}
        received: dict[Ends, float] = {}
        counters = iter(counters_of([one for sockets in self.sending.values() for one in sockets]))
        for ends, sockets in self.sending.items():
            meter = self._sent_meters.setdefault(ends, FlowMeter())
            meter.take(sockets, list(islice(counters, len(sockets))))
            sent[ends] = meter.sent_bytes * WIRE_PER_PAYLOAD
            received[ends] = meter.received_bytes * WIRE_PER_PAYLOAD
        if receiving_too:
            self._read_receiving()
        for ends, meter in self._received_meters.items():
            received[ends] = received.get(ends, 0.0) + meter.received_bytes * WIRE_PER_PAYLOAD
            sent[ends] = sent.get(ends, 0.0) + meter.sent_bytes * WIRE_PER_PAYLOAD  # a socket may begin to send
        waiting = {ends: self._sent_meters[ends].waiting_bytes * WIRE_PER_PAYLOAD for ends in self.sending}
        return Carried(sent, received, waiting)

    def _read_receiving(self) -> None:
        counters = iter(counters_of([one for sockets in self.receiving.values() for one in sockets]))
        for ends, sockets in self.receiving.items():
            meter = self._received_meters.setdefault(ends, FlowMeter())
            meter.take(sockets, list(islice(counters, len(sockets))))


def _by_ends(known: ByEnds, processes: Iterable[OfProcess], host_of: Mapping[str, str], host: str) -> ByEnds:
    before = {one.cookie: one for them in known.values() for one in them}
    once: dict[int, tuple[Ends, DataSocket]] = {}  # by cookie
    for role, sockets in processes:
        for target, them in by_host(sockets, host_of, host).items():
            for one in them:
                if one.cookie not in once or one == before.get(one.cookie):
                    once[one.cookie] = ((role, target), one)
    found: ByEnds = dict.fromkeys(known, ())
    for ends, one in once.values():
        found[ends] = (*found.get(ends, ()), one)
    return found
