"""paceline: the policy of this project.

The model, in four lines. Job j computes for c_j, then needs its links for v_j; r_j of that remains.

    (1) goal     the least Σ_j √ω_j·log s_j, slowdowns s_j = 1/P_j, P_j the job's pace (progress.py), ω_j its weight
    (2) value    a second at full pace is worth −√ω·∂log s/∂P = √ω_j·ŝ_j: slow jobs first, in proportion
    (3) overlap  a burst that ends sets its job computing, which needs no link; that counts as far as it overlaps
                 with what the other jobs still have to send:  w_j = √ω_j·ŝ_j · (1 + κ·min(c_j, Σ_{i≠j} r_i)/r_j)
    (4) choice   per group of jobs that share links, the max-weight packing (packing.py), again at every event

(1) and (2) are gradient scheduling: serving the job with the largest derivative of a concave goal, over averages that
move slowly, converges to the optimum of (1) over all rates that the links can carry, which is the capacity
bound whenever some job wants each full link. No target, no learned share and no central solver is needed: the
average ŝ_j is the only memory, and each host keeps it for its own jobs. It is also why no job starves: P decays
while a job waits, and w_j grows. Jobs that share one link at all times come to slowdowns in proportion to 1/√ω_j.

The logarithm is proportional fairness. With the mean slowdown itself as the goal (ŝ_j²) jobs that cross many crowded
links are held up less and cost all the others more: of a fixed set of jobs the mean slowdown is the same, and where
jobs come and go more of them are there at a time (`sim paper mlcc`).

(3) makes a short burst slip into a long one: while the long one waits for it, the short job's compute phase
overlaps with the long one's sending, and the loss is a fraction of what the short job would lose by waiting. Between
equals it finishes one rather than alternating. Without the bound Σ r_i a long compute phase would count even where no
job waits for the link, and long bursts would push short ones aside. κ is flat from 0.3 to 1.

(4) is where several links matter: see packing.py for why an order of jobs, by whatever key, is not enough.

An operator may choose another goal, `objective = "jct"` (in the simulator: paceline:jct): the least mean time from a
job's start to its end. What counts then is what a job has left, W_j alone seconds:

    (5) value    a second is worth √ω_j·ŝ_j / (1 + W_j/W⁰): jobs that end soon first, and those that waited

ŝ_j is bounded, so a long job may wait for as long as much shorter ones come; the switch's ledger still sees to an equal
share in the long run (switch/ledger.py).

A job that says how many iterations it will do is believed. Of one that does not, the guess is that it lasts as long
again as it has run, which is right where lengths differ widely, and wrong where they do not (docs/papers.md, MLCC).

Tried and rejected, on random mixes: earliest deadline first with the capacity bound's own slowdowns as targets,
highest response ratio, weighted max-min shares, and simulating every order of the present bursts forward.
`paceline sim mixes` shows this policy beside the orders that stayed (order.py).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from paceline.flowcore.allocation.arbiters import max_weight_shares
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated

KAPPA = 0.3  # with 0.6 a job that lies about how urgent it is gains twice as much (`paceline sim lies`)

# r_j is not resolved finer than this: a hand-over takes a few milliseconds anyway, and 1/r must not make the last
# packet of a burst more urgent than everything else.
FINEST_NS = 20e6

OBJECTIVES = ("slowdown", "jct")  # the goal unless chosen, and the other one
SOON_NS = 1e9  # W⁰: a job that has less than this left ends soon, and how soon makes no difference


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
    leaves_uncontended = True
    options: ClassVar[Mapping[str, str]] = {"jct": "the goal is the mean time to a job's end, not the mean slowdown"}

    def bid(self, state: JobState) -> Bid:
        progress = state.progress
        remaining_ns = state.remaining_share * progress.alone_comm_ns
        urgency = progress.weight**0.5 * progress.slowdown
        if "jct" in self.chosen:  # never more than without it: what is too much a switch still knows (observed_job.py)
            # Of a job that does not say how many it will do, `iterations` is 0: as many as it has done.
            left_ns = abs(progress.iterations - state.sent_iterations) * progress.alone_ns
            urgency /= 1.0 + left_ns / SOON_NS
        return Bid(urgency, progress.compute_ns, remaining_ns)
