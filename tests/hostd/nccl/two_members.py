"""The exchange of a job with two members, each on a host: both send at once what the model has, iteration by iteration.

A member may be ahead of what it receives by half of the model, as in a ring of two.
"""

from bench.workload.assignment import Assignment
from bench.workload.exchange import Receiver, Sender, connect, exchange, listen
from nccl_shim.segment.writer import Writer
from paceline.flowcore.model.units import bytes_from_mb


class TwoMembers:
    def __init__(self, own: Assignment, writer: Writer, record: int | None, sends: type[Sender] = Sender) -> None:
        self.size_bytes = round(bytes_from_mb(own.job.model_mb))  # each sends as much as the model has
        self._begun_bytes = 0
        with listen(own.data[own.host], own.port) as listener:
            to_other = connect(own.data[own.job.workers[1 - own.rank]], own.port)
            self._receiver = Receiver(listener.accept()[0])
        self.sender = sends(to_other, self._limit, writer, record)

    def exchange(self) -> None:
        """An iteration's bytes."""
        end_bytes = self._begun_bytes + self.size_bytes
        sender, receiver = self.sender, self._receiver
        exchange([sender], [receiver], lambda: min(sender.sent_bytes, receiver.received_bytes) >= end_bytes)
        self._begun_bytes = end_bytes

    def _limit(self) -> int:
        ahead_bytes = self._receiver.received_bytes - self._begun_bytes + self.size_bytes // 2
        return self._begun_bytes + min(self.size_bytes, ahead_bytes)
