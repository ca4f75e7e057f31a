"""adadual, srsf1, srsf2, srsf3 in the daemons: a burst begins where a gate lets it, and what has begun shares fairly.

The gates are the simulator's (allocation/gates); there a driver asks them for whole jobs, here the switch does, for the
jobs that claim its links:

    has begun    it was given something in this burst: it goes on
    begins       in the order of what an iteration needs, the least first, if the gate says so beside those
    waits        else; its ceiling is what the others leave, as of every job without a share

A message is as long as it takes with the links to itself, and a server is a link. What a switch does not know, and the
simulator does: how many iterations and GPUs a job has. And it hears with a job's next report that the job has begun:
one that claims within that slot and needs less goes first.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from paceline.flowcore.allocation.arbiters import BEGUN, Contender, max_min_shares
from paceline.flowcore.allocation.gates import GATES, Running, Task
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated


class Holding(Arbitrated):
    gate: ClassVar[str]

    def __init__(self, *chosen: str) -> None:
        super().__init__(*chosen)
        self.arbiter = self._admit

    def bid(self, state: JobState) -> Bid:
        progress = state.progress
        needs_s = (progress.iteration_compute_ns + progress.alone_comm_ns) / 1e9
        urgency = BEGUN if state.granted else 1.0 / (1.0 + needs_s)
        return Bid(urgency, progress.iteration_compute_ns, state.remaining_share * progress.alone_comm_ns)

    def _admit(self, contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
        """The rates of those that have begun or may."""
        order = sorted(range(len(contenders)), key=lambda one: (-contenders[one].bid.urgency, contenders[one].job))
        running: list[Running] = []
        admitted: list[int] = []
        for index in order:
            contender = contenders[index]
            task = Task(contender.job, frozenset(contender.flows_on), contender.bid.remaining_ns)
            if contender.bid.urgency >= BEGUN or GATES[self.gate](task, running):
                running.append(Running(task, task.size_bytes))
                admitted.append(index)
        rates_bps = [0.0] * len(contenders)
        shares = max_min_shares([contenders[index] for index in admitted], capacity_bps)
        for index, share_bps in zip(admitted, shares, strict=True):
            rates_bps[index] = share_bps
        return rates_bps


class Adadual(Holding):
    name = gate = "adadual"


class Srsf1(Holding):
    name = gate = "srsf1"


class Srsf2(Holding):
    name = gate = "srsf2"


class Srsf3(Holding):
    name = gate = "srsf3"
