"""The client of a Watch stream: snapshots of a switch's load table."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import DecodeError

from paceline.wire import control_pb2 as pb
from paceline.wire.calls import path
from paceline.wire.codec import BadMessage
from paceline.wire.host_state import HostState, from_wire


@dataclass(frozen=True, slots=True)
class LinkLoad:
    link: str
    capacity_bps: float
    load_bps: tuple[float, ...]  # promised, and cross traffic's, from the snapshot's slot on
    flows: int  # with a lease on it
    others_bps: float = 0.0  # of that: cross traffic's


@dataclass(frozen=True, slots=True)
class JobLoad:
    """What one job has of one link in the snapshot's slot."""

    link: str
    job: str
    planned_bps: float
    share_bps: float  # by arbitration; 0 where the policy has none


@dataclass(frozen=True, slots=True)
class Snapshot:
    switch: str
    slot: int
    slot_length_ns: int
    links: tuple[LinkLoad, ...]
    hosts: tuple[str, ...]  # with a stream open
    silent: tuple[str, ...]  # switches that cannot be reached
    refused: dict[str, int]  # messages since the start, by reason
    messages: int
    plans_refused: int
    policy: str = ""  # an older switch says neither this nor what follows
    urgency: dict[str, float] = field(default_factory=dict)  # of the bids of jobs that want a link now
    job_loads: tuple[JobLoad, ...] = ()
    own_hosts: tuple[str, ...] = ()  # plugged into it
    host_states: dict[str, HostState] = field(default_factory=dict)  # by host; only if asked for


async def watch(
    channel: grpc.aio.Channel, every_slots: int = 1, host_states: bool = False
) -> AsyncGenerator[Snapshot, None]:
    """Until the switch ends the stream; raises AioRpcError or BadMessage."""
    request = pb.WatchRequest(every_slots=every_slots, host_states=host_states)
    call = channel.unary_stream(path("Watch"))(request.SerializeToString())
    try:
        while (data := await call.read()) is not grpc.aio.EOF:
            yield snapshot_of(data)
    finally:
        call.cancel()


def snapshot_of(data: bytes) -> Snapshot:
    try:
        wire = pb.TableSnapshot.FromString(data)
    except DecodeError:
        raise BadMessage("shape", f"the {len(data)} bytes are no valid TableSnapshot") from None
    links, horizon = len(wire.link), wire.horizon
    if len(wire.capacity_bps) != links or len(wire.flows) != links or len(wire.load_bps) != links * horizon:
        raise BadMessage("shape", f"columns of other lengths than {links} links and {horizon} slots have")
    if len(wire.others_bps) not in (0, links):  # none, or an older switch
        raise BadMessage("shape", f"found {len(wire.others_bps)} entries in others_bps, expected {links}")
    parts = wire.part_link, wire.part_job, wire.part_bps, wire.part_share_bps
    if len(set(map(len, parts))) != 1 or len(wire.job) != len(wire.urgency):
        raise BadMessage("shape", "columns of different lengths about jobs")
    if max(wire.part_link, default=-1) >= links or max(wire.part_job, default=-1) >= len(wire.job):
        raise BadMessage("shape", "a load of a link or job that is not named")
    rows = (tuple(wire.load_bps[at : at + horizon]) for at in range(0, links * horizon, horizon or 1))
    return Snapshot(
        wire.name,
        wire.slot,
        wire.slot_length_ns,
        tuple(map(LinkLoad, wire.link, wire.capacity_bps, rows, wire.flows, wire.others_bps or [0.0] * links)),
        tuple(wire.host),
        tuple(wire.silent),
        dict(wire.refused),
        wire.messages,
        wire.plans_refused,
        wire.policy,
        dict(zip(wire.job, wire.urgency, strict=True)),
        tuple(
            JobLoad(wire.link[link], wire.job[job], planned_bps, share_bps)
            for link, job, planned_bps, share_bps in zip(*parts, strict=True)
        ),
        tuple(wire.own_host),
        {one.host: from_wire(one) for one in wire.host_state},
    )
