"""Training jobs of plain sockets: the flows of flowcore.model.patterns with a sleep for the computing. No torch.

Ring: a worker may be one chunk (M/n) ahead of the bytes that have reached it. Parameter server: a server may send each
worker as many bytes as all workers have pushed to it. Both count from the start. Every burst of an iteration is such an
exchange of its part of the model; computing beside it is waited for once it is through. Counters go to the shim's
shared memory as a real job's would, and launches wait for their turn as theirs do.
"""

import socket
import time
import zlib
from functools import partial

from bench.workload.assignment import Assignment, ComputeTimes, computing_beside
from bench.workload.exchange import PeersLeft, Receiver, Sender, connect, exchange, listen
from bench.workload.runner_protocol import done, iteration_ended, wait_for_go
from nccl_shim.page.gate import LaunchGate
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.model.units import bytes_from_mb


def ring(own: Assignment) -> None:
    members, rank = len(own.job.workers), own.rank
    model_bytes = -(-round(bytes_from_mb(own.job.model_mb)) // own.job.bursts)  # of one burst
    chunk_bytes = -(-model_bytes // members)
    size_bytes = 2 * (members - 1) * chunk_bytes
    with listen(own.data[own.host], own.port) as listener:
        to_next = connect(own.data[own.job.workers[(rank + 1) % members]], own.port)
        receiver = Receiver(listener.accept()[0])
    begun_bytes = 0  # of all bursts before this one

    def limit() -> int:
        arrived_bytes = receiver.received_bytes - begun_bytes
        return begun_bytes + min(size_bytes, arrived_bytes + chunk_bytes)

    writer = process_writer()
    record = writer.find(Kind.COLLECTIVE, Source.TORCH, zlib.crc32(b"ring"), rank, members, -1)
    sender = Sender(to_next, limit, writer, record)
    compute, gate = ComputeTimes(own), LaunchGate()
    wait_for_go()
    for _ in own.iterations:
        for before_s, beside_s in compute.pieces_s():
            time.sleep(before_s)
            sender.announce(size_bytes, payload_bytes=model_bytes)
            gate.wait()
            end_bytes = begun_bytes + size_bytes
            with computing_beside(beside_s):
                exchange([sender], [receiver], lambda: min(sender.sent_bytes, receiver.received_bytes) >= end_bytes)  # noqa: B023
            begun_bytes = end_bytes
        writer.end_iteration()
        iteration_ended()


def ps_worker(own: Assignment) -> None:
    shard_bytes = _shard_bytes(own)
    pushed_bytes = 0  # that each server may have by now
    writer = process_writer()
    senders, receivers = [], []
    for number, server in enumerate(own.job.servers):
        connection = connect(own.data[server], own.port + 1)
        connection.sendall(bytes([own.rank]))
        record = writer.find(
            Kind.PUSH, Source.PS, zlib.crc32(b"ps"), own.rank, own.world_size, len(own.job.workers) + number
        )
        senders.append(Sender(connection, lambda: pushed_bytes, writer, record))
        receivers.append(Receiver(connection))
    compute, gate = ComputeTimes(own), LaunchGate()
    wait_for_go()
    for _ in own.iterations:
        for before_s, beside_s in compute.pieces_s():
            time.sleep(before_s)
            pushed_bytes += shard_bytes
            for sender in senders:
                sender.announce(shard_bytes)
            gate.wait()
            flows: list[Sender | Receiver] = [*senders, *receivers]
            with computing_beside(beside_s):
                exchange(senders, receivers, lambda: all(_moved(flow) >= pushed_bytes for flow in flows))  # noqa: B023
        writer.end_iteration()
        iteration_ended()


def ps_server(own: Assignment) -> None:
    """Serves until its workers have left."""
    shard_bytes = _shard_bytes(own)
    connections: dict[int, socket.socket] = {}
    with listen(own.data[own.host], own.port + 1) as listener:
        while len(connections) < len(own.job.workers):
            connection = listener.accept()[0]
            connections[connection.recv(1)[0]] = connection
    receivers = [Receiver(connection) for connection in connections.values()]

    def pushed_by_all() -> int:
        return min(receiver.received_bytes for receiver in receivers)

    writer = process_writer()
    find = partial(writer.find, Kind.PUSH, Source.PS, zlib.crc32(b"ps"), own.rank, own.world_size)
    senders = [Sender(connection, pushed_by_all, writer, find(rank)) for rank, connection in connections.items()]
    wait_for_go()
    served_bytes = 0
    try:
        while True:
            for _ in range(own.job.bursts):
                exchange([], receivers, lambda: pushed_by_all() > served_bytes)  # noqa: B023
                for sender in senders:
                    sender.announce(shard_bytes)
                served_bytes += shard_bytes
                exchange(senders, receivers, lambda: min(map(_moved, senders)) >= served_bytes)  # noqa: B023
            writer.end_iteration()
    except PeersLeft:
        return


def _moved(flow: Sender | Receiver) -> int:
    return flow.sent_bytes if isinstance(flow, Sender) else flow.received_bytes


def _shard_bytes(own: Assignment) -> int:
    """Of one burst."""
    return -(-round(bytes_from_mb(own.job.model_mb)) // (len(own.job.servers) * own.job.bursts))


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    if own.job.pattern is Pattern.ALLREDUCE:
        ring(own)
    elif own.serves:
        ps_server(own)
    else:
        ps_worker(own)
    done()
