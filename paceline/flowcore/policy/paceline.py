"""paceline: the policy of this project.

The model, in four lines. Job j computes for c_j, then needs its links for v_j; r_j of that remains.

    (1) goal     minimise the mean slowdown  Σ_j ω_j·s_j, s_j = 1/P_j, P_j the job's pace (progress.py), ω_j its weight
    (2) value    a second at full pace is worth −ω·∂s/∂P = ω_j·ŝ_j²: slow jobs first, and more than proportionally
    (3) overlap  a burst that ends sets its job computing, which needs no link; that counts as far as it overlaps
                 with what the other jobs still have to send:  w_j = ω_j·ŝ_j² · (1 + κ·min(c_j, Σ_{i≠j} r_i)/r_j)
    (4) choice   per group of jobs that share links, the max-weight packing (packing.py), again at every event

(1) and (2) are gradient scheduling: serving the job with the largest derivative of a concave goal, over averages that
move slowly, converges to the optimum of (1) over all rates that the links can carry, which is the capacity
bound whenever some job wants each full link. No target, no learned share and no central solver is needed: the
average ŝ_j is the only memory, and each host keeps it for its own jobs. It is also why no job starves: P decays
while a job waits, and w_j grows. Jobs that share one link at all times come to slowdowns in proportion to 1/√ω_j.

(3) makes a short burst slip into a long one: while the long one waits for it, the short job's compute phase
overlaps with the long one's sending, and the loss is a fraction of what the short job would lose by waiting. Between
equals it finishes one rather than alternating. Without the bound Σ r_i a long compute phase would count even where no
job waits for the link, and long bursts would push short ones aside. κ is flat from 0.3 to 1.

(4) is where several links matter: see packing.py for why an order of jobs, by whatever key, is not enough.

Tried and rejected, on random mixes: earliest deadline first with the capacity bound's own slowdowns as targets,
highest response ratio, weighted max-min shares, and simulating every order of the present bursts forward.
`paceline sim mixes` shows this policy beside the orders that stayed (order.py).
"""

from collections.abc import Sequence
from functools import partial

from paceline.flowcore.allocation.arbiters import max_weight_shares
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated

KAPPA = 0.6

# r_j is not resolved finer than this: a hand-over takes a few milliseconds anyway, and 1/r must not make the last
# packet of a burst more urgent than everything else.
FINEST_NS = 20e6


def weights(bids: Sequence[Bid]) -> list[float]:
    """w_j of every job in a group that shares links."""
    total_ns = sum(bid.remaining_ns for bid in bids)
    return [
        bid.urgency
        * (1.0 + KAPPA * min(bid.compute_ns, total_ns - bid.remaining_ns) / max(bid.remaining_ns, FINEST_NS))
        for bid in bids
    ]


arbitrate = partial(max_weight_shares, weights=weights)


class Paceline(Arbitrated):
    name = "paceline"
    arbiter = staticmethod(arbitrate)
    yields_to_cross_traffic = True
    keeps_ledger = True
    lends_unused = True

    def bid(self, state: JobState) -> Bid:
        progress = state.progress
        remaining_ns = state.remaining_share * progress.alone_comm_ns
        return Bid(progress.weight * progress.slowdown**2, progress.compute_ns, remaining_ns)
