"""One process's counters at one moment. Law: plain values, copied once; nothing here reads the file again.

Tuples, because hostd makes them for every process many times a second: a frozen dataclass takes six times as long.
"""

from __future__ import annotations

from typing import NamedTuple

from nccl_shim.segment import layout
from nccl_shim.segment.layout import Header, Kind, ProcessRole, Record, Source


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
    weight: float = 1.0  # that its job asks for
    held_ns: int = 0  # since when a launch over NCCL waits at the gate; 0: none does

    @property
    def enqueued_bytes(self) -> int:
        """Outbound payload so far."""
        return sum(flow.enqueued_bytes for flow in self.flows if flow.kind.outbound)

    @property
    def expected_tx_bytes(self) -> int:
        return sum(flow.expected_tx_bytes for flow in self.flows)

    @property
    def tx_bytes(self) -> int:
        return sum(flow.tx_bytes for flow in self.flows)

    @property
    def sources(self) -> tuple[str, ...]:
        """Which feeds have records, by name."""
        return tuple(sorted({flow.source.name.lower() for flow in self.flows if flow.source}))


class NotASegment(Exception):
    """The bytes are not a complete segment of a version that this reader knows."""


def parse_header(raw: bytes) -> Header:
    """Checks the fixed part; raises NotASegment."""
    if len(raw) < layout.HEADER_BYTES:
        raise NotASegment("shorter than a header")
    header = Header.from_buffer_copy(raw)
    if header.magic != layout.MAGIC:
        raise NotASegment("no magic: not ours, or not finished yet")
    if header.version != layout.VERSION:
        raise NotASegment(f"layout version {header.version}, this reader knows {layout.VERSION}")
    sizes = (header.header_bytes, header.record_bytes, header.record_count)
    if sizes != (layout.HEADER_BYTES, layout.RECORD_BYTES, layout.RECORD_COUNT):
        raise NotASegment(f"unexpected sizes {sizes}")
    return header


def parse_iteration_counter(header: Header) -> IterationCounter | None:
    """The iteration counter, or None when it was being written."""
    stored = header.iteration
    words = (
        stored.seq,
        stored.iteration,
        stored.start_ns,
        stored.enqueued_at_start,
        stored.tx_at_start,
        stored.last_enqueued,
        stored.last_duration_ns,
    )
    if words[0] & 1 or stored.check != layout.check_word(words):
        return None
    return IterationCounter(*words[1:])


def parse_flows(raw: bytes, claimed: int) -> tuple[FlowCounters, ...]:
    """Every published record that is there in full."""
    available = (len(raw) - layout.HEADER_BYTES) // layout.RECORD_BYTES
    flows = []
    for index in range(min(claimed, available, layout.RECORD_COUNT)):
        record = Record.from_buffer_copy(raw, layout.HEADER_BYTES + index * layout.RECORD_BYTES)
        # Record 0 collects overflow: of interest only once something overflowed.
        if record.state == layout.FREE or (index == 0 and record.enqueued_ops == 0 and record.tx_steps == 0):
            continue
        try:
            kind = Kind(record.kind)
        except ValueError:
            continue  # a kind from a later release of the same layout
        source = Source(record.source) if record.source in Source._value2member_map_ else None
        flows.append(
            FlowCounters(
                kind,
                source,
                record.comm_id,
                record.rank,
                record.nranks,
                record.peer,
                record.state == layout.PUBLISHED,
                record.enqueued_bytes,
                record.enqueued_ops,
                record.expected_tx_bytes,
                record.enqueued_ns,
                record.tx_bytes,
                record.rx_bytes,
                record.tx_steps,
                record.rx_steps,
                record.channel_mask,
                record.transmit_ns,
                bytes(record.address) if kind is Kind.ADDRESS else b"",
            )
        )
    return tuple(flows)


def snapshot_of(
    header: Header, iteration_counter: IterationCounter | None, flows: tuple[FlowCounters, ...]
) -> ProcessSnapshot:
    """Puts the parts together."""
    return ProcessSnapshot(
        job=header.job.decode(errors="replace"),
        global_rank=header.global_rank,
        world_size=header.world_size,
        local_rank=header.local_rank,
        role=ProcessRole.SERVER if header.role == ProcessRole.SERVER else ProcessRole.WORKER,
        pid=header.pid,
        pid_start_ticks=header.pid_start_ticks,
        pid_namespace=header.pid_namespace,
        uid=header.uid,
        native_writer=header.writer == layout.WRITER_C,
        finished=bool(header.flags & layout.FINISHED),
        created_ns=header.created_ns,
        heartbeat_ns=header.heartbeat_ns,
        dropped_records=header.dropped_records,
        iteration_counter=iteration_counter,
        flows=flows,
        weight=header.weight_milli / 1000 or 1.0,
        held_ns=header.held_ns,
    )
