"""One process's counters at one moment. Law: plain values, copied once; nothing here reads the file again.

Tuples, because hostd makes them for every process many times a second: a frozen dataclass takes six times as long.
"""

from __future__ import annotations

from typing import NamedTuple

from nccl_shim.segment import layout
from nccl_shim.segment.layout import Kind, ProcessRole, Source

# A hundred a second for eleven days. Callers multiply it by the bytes of an iteration, up to an exabyte.
MOST_ITERATIONS = 10**8


class FlowCounters(NamedTuple):
    """One record: what was asked of it (enqueue side) and what moved (transmit side)."""

    kind: Kind
    source: Source | None
    comm_id: int
    rank: int
    nranks: int
    peer: int
    is_open: bool
    enqueued_bytes: int
    enqueued_ops: int
    expected_tx_bytes: int
    enqueued_ns: int
    tx_bytes: int
    rx_bytes: int
    tx_steps: int
    rx_steps: int
    channel_mask: int
    transmit_ns: int
    address: bytes = b""  # of kind ADDRESS: to which bytes were handed to the transport


class IterationCounter(NamedTuple):
    """`iteration` iterations have ended, the last of them at `start_ns`."""

    iteration: int
    start_ns: int
    enqueued_at_start: int
    tx_at_start: int
    last_enqueued_bytes: int
    last_duration_ns: int


class ProcessSnapshot(NamedTuple):
    job: str
    global_rank: int
    world_size: int
    local_rank: int
    role: ProcessRole
    pid: int
    pid_start_ticks: int
    pid_namespace: int
    uid: int
    native_writer: bool
    finished: bool
    created_ns: int
    heartbeat_ns: int
    dropped_records: int
    iteration_counter: IterationCounter | None  # None: torn, because the writer died while storing it
    flows: tuple[FlowCounters, ...]
    enqueued_bytes: int  # outbound payload so far
    expected_tx_bytes: int
    tx_bytes: int
    weight: float  # that its job asks for
    held_ns: int  # since when a launch over NCCL waits at the gate; 0: none does
    iterations: int  # that its job says it will do; 0: it does not say

    @property
    def sources(self) -> tuple[str, ...]:
        """Which feeds have records, by name."""
        return tuple(sorted({flow.source.name.lower() for flow in self.flows if flow.source}))


class NotASegment(Exception):
    """The bytes are not a complete segment of a version that this reader knows."""


class SegmentHeader(NamedTuple):
    """layout.Header as it stands there, without what is reserved."""

    magic: int
    version: int
    header_bytes: int
    record_bytes: int
    record_count: int
    records_claimed: int
    role: int
    pid: int
    uid: int
    pid_start_ticks: int
    pid_namespace: int
    global_rank: int
    world_size: int
    local_rank: int
    flags: int
    created_ns: int
    heartbeat_ns: int
    weight_milli: int
    writer: int
    dropped_records: int
    held_ns: int
    iterations: int
    seq: int
    iteration: int
    start_ns: int
    enqueued_at_start: int
    tx_at_start: int
    last_enqueued: int
    last_duration_ns: int
    check: int
    job_bytes: bytes

    @property
    def job(self) -> str:
        return self.job_bytes.partition(b"\0")[0].decode(errors="replace")


_KINDS = {int(kind): kind for kind in Kind}  # one of a later release of the same layout has none
_SOURCES = {int(source): source for source in Source}


def parse_header(raw: bytes) -> SegmentHeader:
    """Checks the fixed part; raises NotASegment."""
    if len(raw) < layout.HEADER_BYTES:
        raise NotASegment("shorter than a header")
    header = SegmentHeader._make(layout.HEADER.unpack_from(raw))
    if header.magic != layout.MAGIC:
        raise NotASegment("no magic: not ours, or not finished yet")
    if header.version != layout.VERSION:
        raise NotASegment(f"layout version {header.version}, this reader knows {layout.VERSION}")
    sizes = header[2:5]
    if sizes != (layout.HEADER_BYTES, layout.RECORD_BYTES, layout.RECORD_COUNT):
        raise NotASegment(f"unexpected sizes {sizes}")
    return header


def parse_iteration_counter(header: SegmentHeader) -> IterationCounter | None:
    """The iteration counter, or None when it was being written."""
    words = (
        header.seq,
        header.iteration,
        header.start_ns,
        header.enqueued_at_start,
        header.tx_at_start,
        header.last_enqueued,
        header.last_duration_ns,
    )
    if words[0] & 1 or header.check != layout.check_word(words):
        return None
    return IterationCounter._make(words[1:])


def parse_flows(raw: bytes, claimed: int) -> tuple[FlowCounters, ...]:
    """Every published record that is there in full."""
    available = (len(raw) - layout.HEADER_BYTES) // layout.RECORD_BYTES
    flows = []
    for index in range(min(claimed, available, layout.RECORD_COUNT)):
        at = layout.HEADER_BYTES + index * layout.RECORD_BYTES
        state, kind, comm_id, rank, nranks, peer, source, *counts, address = layout.RECORD.unpack_from(raw, at)
        if state == layout.FREE or kind not in _KINDS:
            continue
        identity = (_KINDS[kind], _SOURCES.get(source), comm_id, rank, nranks, peer, state == layout.PUBLISHED)
        flow = FlowCounters._make((*identity, *counts, address if kind == Kind.ADDRESS else b""))
        # Record 0 collects overflow: of interest only once something overflowed.
        if index or flow.enqueued_ops or flow.tx_steps:
            flows.append(flow)
    return tuple(flows)


def snapshot_of(
    header: SegmentHeader, iteration_counter: IterationCounter | None, flows: tuple[FlowCounters, ...]
) -> ProcessSnapshot:
    """Puts the parts together."""
    return ProcessSnapshot(
        header.job,
        header.global_rank,
        header.world_size,
        header.local_rank,
        ProcessRole.SERVER if header.role == ProcessRole.SERVER else ProcessRole.WORKER,
        header.pid,
        header.pid_start_ticks,
        header.pid_namespace,
        header.uid,
        header.writer == layout.WRITER_C,
        bool(header.flags & layout.FINISHED),
        header.created_ns,
        header.heartbeat_ns,
        header.dropped_records,
        iteration_counter,
        flows,
        sum([flow.enqueued_bytes for flow in flows if flow.kind in layout.OUTBOUND]),
        sum([flow.expected_tx_bytes for flow in flows]),
        sum([flow.tx_bytes for flow in flows]),
        header.weight_milli / 1000 or 1.0,
        header.held_ns,
        header.iterations if header.iterations <= MOST_ITERATIONS else 0,  # "for ever" is no number
    )
