"""fifo and srpt: strict orders, as baselines: `paceline sim mixes` shows where they win and how badly they lose."""

from paceline.flowcore.allocation.arbiters import in_order
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated
from paceline.flowcore.policy.base import Standing


class Fifo(Arbitrated):
    """The job whose bytes have waited longest goes first."""

    name = "fifo"
    arbiter = staticmethod(in_order)

    def bid(self, standing: Standing) -> Bid:
        return Bid(-float(standing.ready_ns))


class Srpt(Arbitrated):
    """Shortest remaining transmission first: best for flows that come once, starves long ones that share."""

    name = "srpt"
    arbiter = staticmethod(in_order)

    def bid(self, standing: Standing) -> Bid:
        return Bid(-standing.remaining_share * standing.progress.alone_comm_ns)
