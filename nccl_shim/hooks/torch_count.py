"""Counts what a torch process group is asked to move. Law: the call goes through unchanged whatever happens
here; sizes follow NCCL's convention (all-gather and reduce-scatter: one rank's share), so feeds compare.

A burst is launched with the first collective of a backward pass: it is announced, and then waits for its turn where
hostd says so (page/gate.py). What follows in the pass waits no more.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from nccl_shim.hooks.boundary import IterationBoundary, in_backward
from nccl_shim.page.gate import LaunchGate
from nccl_shim.segment.layout import Kind, Source, ring_wire_bytes
from nccl_shim.segment.writer import SilentWriter, Writer, process_writer, warn_once

# Method of ProcessGroup → (operation, which positional argument holds one rank's share). Some are the same
# operation under the names of different torch releases; those a release does not have are left out.
OPERATIONS = {
    "allreduce": ("AllReduce", 0),
    "allreduce_coalesced": ("AllReduce", 0),
    "broadcast": ("Broadcast", 0),
    "reduce": ("Reduce", 0),
    "allgather": ("AllGather", 1),
    "_allgather_base": ("AllGather", 1),
    "all_gather_single": ("AllGather", 1),
    "all_gather_single_coalesced": ("AllGather", 1),
    "allgather_coalesced": ("AllGather", 1),
    "allgather_into_tensor_coalesced": ("AllGather", 1),
    "reduce_scatter": ("ReduceScatter", 0),
    "_reduce_scatter_base": ("ReduceScatter", 0),
    "reduce_scatter_single": ("ReduceScatter", 0),
    "reduce_scatter_single_coalesced": ("ReduceScatter", 0),
    "reduce_scatter_tensor_coalesced": ("ReduceScatter", 0),
    "alltoall": ("AlltoAll", 1),
    "alltoall_base": ("AlltoAll", 1),
    "all_to_all_single": ("AlltoAll", 1),
    "gather": ("Gather", 1),
    "scatter": ("Scatter", 0),
    "send": ("Send", 0),
    "recv": ("Recv", 0),
}


def size_bytes_of(tensors: Any) -> int:
    """Bytes of a tensor, or of every tensor in nested lists."""
    if isinstance(tensors, torch.Tensor):
        size_bytes: int = tensors.numel() * tensors.element_size()
        return size_bytes
    return sum(size_bytes_of(tensor) for tensor in tensors)


def device_of(tensors: Any) -> torch.device:
    while not isinstance(tensors, torch.Tensor):
        tensors = tensors[0]
    return tensors.device


def is_nccl(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the NCCL plugin sees this traffic itself."""
    return bool(device.type == "cuda" and group._get_backend(device).name() == "nccl")


def wire_bytes_of(operation: str, size_bytes: int, group: dist.ProcessGroup, device: torch.device) -> int:
    """What this rank sends: of an all-to-all, all but its own part; of a reduce-scatter over gloo, which has none, what
    the all-reduce sends that torch makes of it."""
    nranks: int = group.size()
    if operation == "AlltoAll":
        return size_bytes * (nranks - 1) // nranks
    if operation == "ReduceScatter" and group._get_backend(device).name() == "gloo":
        return ring_wire_bytes("AllReduce", size_bytes * nranks, nranks)
    return ring_wire_bytes(operation, size_bytes, nranks)


class Announced(NamedTuple):
    """A call that is about to be made."""

    record: int | None
    tx_bytes: int
    rx_bytes: int


class TorchCounter:
    """One per process: turns calls into records, completions and ends of iterations."""

    def __init__(self) -> None:
        self._writer: Writer = SilentWriter()  # until the first use of `writer`
        self._records: dict[tuple[Any, ...], int | None] = {}
        self._in_flight: deque[tuple[Any, int | None, int, int]] = deque()
        self._buckets: dict[int | None, int] = {}  # record → wire bytes of buckets that DDP has yet to wait for
        self.boundary = IterationBoundary(self._end)
        self._begun = False  # the first iteration
        self._gate = LaunchGate()

    def announce(self, group: dist.ProcessGroup, operation: str, share: Any, peer: int) -> Announced | None:
        """Counts what a call will move, and waits for its turn if it begins a burst; never raises."""
        try:
            return self._announce(group, operation, share, peer)
        except Exception as error:
            warn_once(f"cannot count {operation}: {error!r}; training is not affected")
            return None

    def made(self, announced: Announced | None, work: Any) -> None:
        """The call was made, and returned `work`; None: it failed. Never raises."""
        try:
            if announced is not None:
                self._when_done(work, announced)
        except Exception as error:
            warn_once(f"cannot see completions: {error!r}; training is not affected")

    def announce_bucket(self, record: int | None, nranks: int, tensors: list[torch.Tensor]) -> None:
        """As `announce` for one of DDP's buckets, in as little Python as possible; never raises.

        It runs between two streams of megabytes through the caches, where every line of code is a cold one:
        the general way above was measured to cost 150 µs of CPU a bucket there, this one 40. DDP waits for
        its buckets before the pass ends, so they are counted as sent then; no completion is looked at.
        """
        try:
            size_bytes = 0
            for tensor in tensors:
                size_bytes += _sparse_bytes(tensor) if tensor.is_sparse else tensor.nbytes
            wire_bytes = size_bytes * 2 * (nranks - 1) // nranks
            self._writer.enqueue(record, size_bytes, wire_bytes)
            self._buckets[record] = self._buckets.get(record, 0) + wire_bytes
            if not self.boundary.armed:
                self.boundary.communicated()
                self._gate.wait()
        except Exception as error:
            warn_once(f"cannot count a bucket: {error!r}; training is not affected")

    def bucket_record(self, group: dist.ProcessGroup) -> int | None:
        """The record that `announce_bucket` adds to."""
        return self._record(group, "AllReduce", -1)

    def _announce(self, group: dist.ProcessGroup, operation: str, share: Any, peer: int) -> Announced | None:
        size_bytes, announced, was_armed = size_bytes_of(share), None, self.boundary.armed
        if size_bytes and not is_nccl(group, device_of(share)):
            record = self._record(group, operation, peer)
            inbound = operation == "Recv"
            wire_bytes = 0 if inbound else wire_bytes_of(operation, size_bytes, group, device_of(share))
            self.writer.enqueue(record, size_bytes, wire_bytes)
            announced = Announced(record, wire_bytes, size_bytes if inbound else 0)
        self.boundary.communicated()
        if announced is not None and self.boundary.armed and not was_armed:
            self._gate.wait()
        return announced

    def _record(self, group: dist.ProcessGroup, operation: str, peer: int) -> int | None:
        key = (group.group_name, group.rank(), group.size(), operation == "Recv", peer)
        if key not in self._records:
            name, rank, size, inbound, peer = key
            kind = Kind.COLLECTIVE if peer < 0 else Kind.RECV if inbound else Kind.SEND
            comm_id = zlib.crc32(name.encode())  # the same on every rank
            self._records[key] = self.writer.find(kind, Source.TORCH, comm_id, rank, size, peer)
        return self._records[key]

    def _when_done(self, work: Any, announced: Announced) -> None:
        """Counts the bytes as sent once `work` is complete.

        In a backward pass completions are looked up at the next collective and at the end, in the thread that
        is here anyway: a callback for each would wake Python in one of gloo's threads, with cold caches and
        in competition for the interpreter.
        """
        writer, (record, tx_bytes, rx_bytes) = self.writer, announced
        try:
            future = work.get_future()  # DDP waits for it, and it is done a moment before the work says so
        except Exception:  # a backend without futures: count as sent rather than as waiting for ever
            writer.transmit(record, tx_bytes, rx_bytes)
            return
        if in_backward():
            self._count_completed()  # a future holds its tensors: none is kept longer than it must
            self._in_flight.append((future, record, tx_bytes, rx_bytes))
        else:
            future.add_done_callback(lambda _future: writer.transmit(record, tx_bytes, rx_bytes))

    def _end(self) -> None:
        self._count_sent()
        self._end_iteration()

    def _count_sent(self) -> None:
        """At the end of a pass: counts DDP's buckets and all else that is complete; never raises."""
        try:
            while self._buckets:
                record, wire_bytes = self._buckets.popitem()
                self.writer.transmit(record, wire_bytes, 0)
            self._count_completed()
        except Exception as error:
            warn_once(f"cannot see completions: {error!r}; training is not affected")

    def _count_completed(self) -> None:
        for _ in range(len(self._in_flight)):
            future, record, tx_bytes, rx_bytes = self._in_flight.popleft()
            if future.done():
                self.writer.transmit(record, tx_bytes, rx_bytes)
            else:
                self._in_flight.append((future, record, tx_bytes, rx_bytes))

    @property
    def writer(self) -> Writer:
        writer = process_writer()
        if writer is not self._writer:  # first use, or a forked child with a file of its own
            self._writer = writer
            self._records.clear()
            self._in_flight.clear()
            self._begun = False
        return writer

    def begin(self) -> None:
        """Before a backward pass: the first of them is the first iteration's, and what DDP moved until then, its
        parameters, is no part of it; never raises."""
        try:
            writer = self.writer
            if not self._begun:
                self._begun = True
                writer.begin_iterations()
        except Exception as error:
            warn_once(f"cannot count from the first iteration: {error!r}; training is not affected")

    def _end_iteration(self) -> None:
        try:
            self.writer.end_iteration()
        except Exception as error:
            warn_once(f"cannot count an iteration: {error!r}; training is not affected")


def counted(method: Callable[..., Any], name: str, counter: TorchCounter) -> Callable[..., Any]:
    """`method` of ProcessGroup, counted."""
    operation, position = OPERATIONS[name]
    point_to_point = operation in ("Send", "Recv")

    def call(self: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        if len(args) <= position:
            return method(self, *args, **kwargs)
        peer = args[1] if point_to_point and len(args) > 1 else -1
        announced, work = counter.announce(self, operation, args[position], peer), None
        try:
            work = method(self, *args, **kwargs)
        finally:
            counter.made(announced, work)
        return work

    # For Python subclasses of ProcessGroup, C++ looks the method up by name and calls what it finds; it sees
    # that it was called from there, and stops, by the name of the code that is running.
    call.__code__ = call.__code__.replace(co_name=name)
    call.__name__ = name
    return call


def _sparse_bytes(tensor: torch.Tensor) -> int:
    return int(tensor._values().nbytes + tensor._indices().nbytes)
