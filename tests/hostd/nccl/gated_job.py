"""A job over NCCL as its plugin sees it: computes, calls an all-reduce, which waits for its turn, and sends."""

import time

from bench.workload.assignment import Assignment, ComputeTimes
from bench.workload.exchange import Sender
from bench.workload.runner_protocol import iteration_ended, wait_for_go
from nccl_shim.segment.writer import SilentWriter, process_writer
from tests.hostd.nccl.plugin_calls import Communicator
from tests.hostd.nccl.two_members import TwoMembers


class CountedSender(Sender):
    """By the plugin."""

    communicator: Communicator

    def send(self) -> None:
        before = self.sent_bytes
        super().send()
        self.communicator.sent(self.sent_bytes - before)


def main(assignment: str) -> None:
    own = Assignment.from_json(assignment)
    members = TwoMembers(own, SilentWriter(), None, CountedSender)
    assert isinstance(members.sender, CountedSender)
    members.sender.communicator = communicator = Communicator(own.rank)
    compute, marks = ComputeTimes(own), process_writer()
    wait_for_go()
    while True:
        time.sleep(compute.next_s())
        communicator.call(members.size_bytes)
        communicator.launched(members.size_bytes)
        marks.end_iteration()
        members.exchange()
        iteration_ended()
