"""crux: jobs in the order of their GPU intensity, a baseline (Crux, SIGCOMM 2024, §3.2).

    I_j = W_j / t_j         W_j: what the job computes in an iteration; t_j = max_l M_jl/u_l: its busiest link's time

The theorem there: over a long time GPUs are used the more, the more intensity the links carry. So a job that computes
long for few bytes goes first, and one that mostly communicates may starve.

Of the paper this is the priority alone: paths are the topology's, priorities need no compression into eight classes,
and the correction factor for jobs that compute beside their bursts (§4.2, eq. 3) is 1. W_j is the time that each of its
workers computes: a host does not know how many GPUs the job has elsewhere. An order is only as good as what is
known: until a job has computed once its intensity is 0.
"""

from paceline.flowcore.allocation.arbiters import strict_priority
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated


class Crux(Arbitrated):
    name = "crux"
    arbiter = staticmethod(strict_priority)

    def bid(self, state: JobState) -> Bid:
        # A nanosecond more, since a host that has counted no bytes yet knows no time.
        progress = state.progress
        return Bid(progress.weight * progress.iteration_compute_ns / (progress.alone_comm_ns + 1.0))
