"""fifo and srpt: strict orders, as baselines: `paceline sim mixes` shows where they win and how badly they lose."""

from paceline.flowcore.allocation.arbiters import strict_priority
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated


class Fifo(Arbitrated):
    """The job whose bytes have waited longest goes first."""

    name = "fifo"
    arbiter = staticmethod(strict_priority)

    def bid(self, state: JobState) -> Bid:
        return Bid(-float(state.ready_ns))


class Srpt(Arbitrated):
    """Shortest remaining transmission first: best for flows that come once, starves long ones that share."""

    name = "srpt"
    arbiter = staticmethod(strict_priority)

    def bid(self, state: JobState) -> Bid:
        return Bid(-state.remaining_share * state.progress.alone_comm_ns)
