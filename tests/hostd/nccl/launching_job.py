"""A job that launches as NCCL does: Python announces and counts an iteration, the device computes and sends later."""

import time
import zlib

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.runner_protocol import iteration_ended, wait_for_go
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.writer import process_writer
from tests.hostd.nccl.two_members import TwoMembers


def main(assignment: str, *, marks: bool = True) -> None:
    own = Assignment.from_json(assignment)
    writer = process_writer()
    record = writer.find(Kind.COLLECTIVE, Source.NCCL, zlib.crc32(b"nccl"), own.rank, 2, -1)
    members, compute = TwoMembers(own, writer, record), ComputeTimes(own)
    wait_for_go()
    while True:
        members.sender.announce(members.size_bytes)
        if marks:
            writer.end_iteration()
        time.sleep(compute.next_s())
        members.exchange()
        iteration_ended()
