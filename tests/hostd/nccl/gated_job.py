"""A job over NCCL as its plugin sees it: computes, calls an all-reduce, which waits for its turn, and sends."""

import time

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.exchange import Receiver, Sender, connect, exchange, listen
from bench.workload.runner_protocol import iteration_ended, wait_for_go
from nccl_shim.segment.writer import SilentWriter, process_writer
from paceline.flowcore.model.units import bytes_from_mb
from tests.hostd.nccl.plugin_calls import Communicator


class CountedSender(Sender):
    """By the plugin."""

    communicator: Communicator

    def send(self) -> None:
        before = self.sent_bytes
        super().send()
        self.communicator.sent(self.sent_bytes - before)


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    size_bytes = round(bytes_from_mb(own.job.model_mb))  # two members: each sends as much as the model has
    with listen(own.data[own.host], own.port) as listener:
        to_other = connect(own.data[own.job.workers[1 - own.rank]], own.port)
        receiver = Receiver(listener.accept()[0])
    begun_bytes = 0

    def limit() -> int:
        return begun_bytes + min(size_bytes, receiver.received_bytes - begun_bytes + size_bytes // 2)

    sender = CountedSender(to_other, limit, SilentWriter(), None)
    sender.communicator = communicator = Communicator(own.rank)
    compute, marks = ComputeTimes(own), process_writer()
    wait_for_go()
    while True:
        time.sleep(compute.next_s())
        communicator.call(size_bytes)
        communicator.launched(size_bytes)
        marks.end_iteration()
        end_bytes = begun_bytes + size_bytes
        exchange([sender], [receiver], lambda: min(sender.sent_bytes, receiver.received_bytes) >= end_bytes)  # noqa: B023
        begun_bytes = end_bytes
        iteration_ended()
