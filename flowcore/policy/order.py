"""fifo and srpt: strict orders, as baselines: `paceline sim mixes` shows where they win and how badly they lose."""

from typing import TYPE_CHECKING

from flowcore.arbitrate import in_order
from flowcore.messages import Bid
from flowcore.policy.arbitrated import Arbitrated

if TYPE_CHECKING:
    from flowcore.host import Flow, HostAgent


class Fifo(Arbitrated):
    """The job whose bytes have waited longest goes first."""

    name = "fifo"
    arbiter = staticmethod(in_order)

    def bid(self, host: "HostAgent", flow: "Flow", now_ns: int) -> Bid:
        return Bid(-float(flow.ready_ns))


class Srpt(Arbitrated):
    """Shortest remaining transmission first: best for flows that come once, starves long ones that share."""

    name = "srpt"
    arbiter = staticmethod(in_order)

    def bid(self, host: "HostAgent", flow: "Flow", now_ns: int) -> Bid:
        job = host.jobs[flow.id.job]
        return Bid(-job.remaining_share * job.progress.alone_comm_ns)
