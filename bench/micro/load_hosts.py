"""Hosts that cost little, so that the measurement is of the switches.

Everything about a host's claims is serialized once; a message is those bytes behind a head of a few that change. A
sample of the hosts decides: these run Algorithm 1 on every answer and send the new plans. The other hosts send the same
plans again, a quarter of their NIC, and only note that the answer came; to the switches all hosts are alike.
"""

import random
from dataclasses import dataclass

from paceline.flowcore.allocation.allocator import allocate
from paceline.flowcore.messages.reports import Bid, Claim, Report
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import Topology
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import REPORT

WORKERS_PER_JOB = 4

# Each deciding host costs the generator a millisecond per slot.
DECIDING_HOSTS = 12

# Of its NIC, what a host's flows plan together while it does not decide.
BACKGROUND = 0.25

_REPORT_TAG = b"\x1a"  # HostMessage.report: field 3, length-delimited


@dataclass(slots=True)
class LoadHost:
    name: str
    decides: bool
    claims: pb.Claims
    fixed: bytes = b""  # the report but for its number and slot

    def __post_init__(self) -> None:
        self.freeze()

    def freeze(self) -> None:
        """The next messages carry the claims as they are now."""
        self.fixed = pb.Report(sender=self.name, claims=self.claims).SerializeToString()

    def message(self, number: int, slot: int, sent_ns: int) -> bytes:
        """A HostMessage with a report, put together by hand: the fields of a message may come in any order."""
        head: bytes = pb.Report(number=number, first_slot=slot).SerializeToString()
        length = _varint(len(head) + len(self.fixed))
        sent_at: bytes = pb.HostMessage(sent_ns=sent_ns).SerializeToString()
        return sent_at + _REPORT_TAG + length + head + self.fixed

    def decide(self, feedback: pb.Feedback, horizon: int, slot_s: float) -> None:
        """Algorithm 1 for each flow, in its part of what the path has left; sent after the next `freeze`."""
        order = {flow: index for index, flow in enumerate(feedback.flow)}
        plans: list[float] = []
        flows = len(self.claims.flow)
        for flow, size_bytes in zip(self.claims.flow, self.claims.size_bytes, strict=True):
            at = order[flow] * horizon
            room = [rate_bps / flows * slot_s / 8 for rate_bps in feedback.available_bps[at : at + horizon]]
            schedule = allocate(size_bytes, room, feedback.load[at : at + horizon])
            plans += (volume_bytes * 8 / slot_s for volume_bytes in schedule.volume_bytes)
        self.claims.plan_bps[:] = plans


def load_hosts(topology: Topology, flows: int, across: float, horizon: int, seed: int) -> list[LoadHost]:
    """Every host is in `flows` ring jobs of a few workers; a part `across` of the jobs is spread over all racks."""
    draws = random.Random(seed)
    own: dict[str, list[FlowId]] = {host: [] for host in topology.hosts}
    number = 0
    for turn in range(flows):
        spread = int((turn + 1) * across) > int(turn * across)
        for ring in _rings(topology, spread, draws):
            for source, target in zip(ring, ring[1:] + ring[:1], strict=True):
                own[source].append(FlowId(f"job{number}", source, target, Role.RING))
            number += 1
    deciding = set(draws.sample(topology.hosts, min(DECIDING_HOSTS, len(topology.hosts))))
    return [
        LoadHost(host, host in deciding, _claims(host, mine, topology, horizon, draws)) for host, mine in own.items()
    ]


def _rings(topology: Topology, spread: bool, draws: random.Random) -> list[list[str]]:
    """All hosts in rings, within racks if that is possible."""
    racks: dict[str, list[str]] = {}
    for host in topology.hosts:
        racks.setdefault(topology.switch_of[host], []).append(host)
    if spread or any(len(rack) < 2 for rack in racks.values()):
        racks = {"": list(topology.hosts)}
    rings: list[list[str]] = []
    for rack in racks.values():
        draws.shuffle(rack)
        cut = [rack[start : start + WORKERS_PER_JOB] for start in range(0, len(rack), WORKERS_PER_JOB)]
        if len(cut[-1]) == 1:  # a ring has two hosts at least
            cut[-2:] = [cut[-2] + cut[-1]]
        rings += cut
    return rings


def _claims(host: str, flows: list[FlowId], topology: Topology, horizon: int, draws: random.Random) -> pb.Claims:
    nic_bps = topology.links[topology.path(host, flows[0].target, str(flows[0]))[0]].capacity_bps
    plan_bps = (BACKGROUND * nic_bps / len(flows),) * horizon
    claims = tuple(
        Claim(
            flow,
            topology.path(flow.source, flow.target, str(flow)),
            size_bytes=draws.uniform(20e6, 200e6),
            bid=Bid(draws.uniform(1.0, 3.0), 200e6, 100e6),
            sent_bytes=0.0,
            planned_bytes=0.0,
            upstream=(),
            downstream=(),
            plan_bps=plan_bps,
        )
        for flow in flows
    )
    return REPORT.to_wire(Report(host, 0, 0, claims)).claims


def _varint(number: int) -> bytes:
    """As protobuf writes lengths: seven bits a byte, the lowest first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
