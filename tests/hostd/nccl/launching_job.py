"""A job that launches as NCCL does: Python announces and counts an iteration, the device computes and sends later."""

import time
import zlib

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.exchange import Receiver, Sender, connect, exchange, listen
from bench.workload.runner_protocol import iteration_ended, wait_for_go
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
from paceline.flowcore.model.units import bytes_from_mb


def main(assignment: str, *, marks: bool = True) -> None:
    own = Assignment.from_json(assignment)
    size_bytes = round(bytes_from_mb(own.job.model_mb))  # two members: each sends as much as the model has
    with listen(own.data[own.host], own.port) as listener:
        to_other = connect(own.data[own.job.workers[1 - own.rank]], own.port)
        receiver = Receiver(listener.accept()[0])
    begun_bytes = 0

    def limit() -> int:
        return begun_bytes + min(size_bytes, receiver.received_bytes - begun_bytes + size_bytes // 2)

    writer = process_writer()
    record = writer.find(Kind.COLLECTIVE, Source.NCCL, zlib.crc32(b"nccl"), own.rank, 2, -1)
    sender = Sender(to_other, limit, writer, record)
    compute = ComputeTimes(own)
    wait_for_go()
    while True:
        sender.announce(size_bytes)
        if marks:
            writer.end_iteration()
        time.sleep(compute.next_s())
        end_bytes = begun_bytes + size_bytes
        exchange([sender], [receiver], lambda: min(sender.sent_bytes, receiver.received_bytes) >= end_bytes)  # noqa: B023
        begun_bytes = end_bytes
        iteration_ended()
