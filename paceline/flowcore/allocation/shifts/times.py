"""From a plan's shifts to times: when each job's bursts are due, and every how many ns again."""

from collections.abc import Mapping

from paceline.flowcore.allocation.shifts.footprint import Footprint
from paceline.flowcore.allocation.shifts.plan import Plan
from paceline.flowcore.model.units import ns_from_ms

# Only jobs that fit are held to times (§5.7): a job that meets others is late, and waits for its next time in vain.
COMPATIBLE = 0.95

Due = dict[str, tuple[int, int]]  # job: when a communication is due, and every how many ns again


def due_times(found: Plan, jobs: Mapping[str, Footprint], before: Due, now_ns: int) -> Due:
    """Of the jobs that the plan shifts; `jobs`, oldest first. In every connected part the oldest job that had a time
    keeps it."""
    times: Due = {}
    for part in found.parts_ms:
        phase_ns = {job: ns_from_ms(shift_ms + jobs[job].compute_ms) for job, shift_ms in part.items()}
        timed = [job for job in jobs if job in part and job in before]
        origin_ns = before[timed[0]][0] - phase_ns[timed[0]] if timed else now_ns
        longer = 1.0 + max(jobs[job].slack for job in part)  # one factor, or they would turn against each other
        for job in part:
            times[job] = origin_ns + phase_ns[job], max(1, ns_from_ms(longer * found.iterations_ms[job]))
    return times
