"""cassini in the daemons: a burst begins when it is due, and what has begun shares fairly.

Circles, rotations, shifts and drift are the simulator's (allocation/shifts); there a driver knows every job's profile,
here the switch that divides a group learns it from the group's claims (seen_job.py) and holds its jobs to their times
(timetable.py). A job that is held may not borrow, also where the link is free: that others leave room now is no reason
to be in their way an iteration later. A host that hears nothing from its switch goes on as ever, and holds nothing.

A job with several bursts an iteration is not described by one time: its hosts bid no computing, and it is not held.
"""

from collections.abc import Mapping

from paceline.flowcore.allocation.arbiters import BEGUN, max_min_shares
from paceline.flowcore.allocation.shifts.timetable import Timetable
from paceline.flowcore.host.policy import JobState
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy.arbitrated import Arbitrated


class Cassini(Arbitrated):
    name = "cassini"
    arbiter = staticmethod(max_min_shares)

    def timetable(self, capacity_bps: Mapping[str, float]) -> Timetable:
        return Timetable(capacity_bps)

    def bid(self, state: JobState) -> Bid:
        progress = state.progress
        compute_ns = progress.compute_ns if progress.bursts == 1 else 0.0
        return Bid(BEGUN if state.granted else 0.0, compute_ns, state.remaining_share * progress.alone_comm_ns)
