"""One history, checked from its first slot to the last; the verdict is what was violated, or nothing.

The checks look twice a slot. When the jobs' time is over they leave, and END_SLOTS later nothing may be left of them;
a withdrawal that was refused takes until its entry ends.
"""

import math
from typing import NamedTuple

from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from paceline.sim.faults.checks import SETTLE_SLOTS, Checks, Violation
from paceline.sim.faults.history import History
from paceline.sim.faults.world import SLOT_NS, Trace, World

LOOKS_PER_SLOT = 2
END_SLOTS = 2  # withdrawals need less than one
OBSERVED_SLOTS = 8  # at least
ROUNDS = 4  # in which all jobs have been served


class Verdict(NamedTuple):
    history: History
    rule: str = ""  # empty: all held
    what: str = ""


def check(history: History, trace: Trace | None = None) -> Verdict:
    try:
        _run(World(history, trace=trace))
    except Violation as violation:
        return Verdict(history, violation.rule, str(violation))
    except Exception as error:  # an agent must take whatever comes
        return Verdict(history, "crash", f"{type(error).__name__}: {error}")
    return Verdict(history)


def _run(world: World) -> None:
    history, checks = world.history, Checks(world)
    # A job that has just missed its turn has to wait for all others, and then needs one itself. It may have to wait
    # longer: what a job was given while its host was beyond control counts as if it had been used.
    round_slots = sum(job.burst_slots for job in history.jobs) + _longest_compute(history)
    observed = max(OBSERVED_SLOTS, ROUNDS * round_slots)
    slots = max(history.slots, math.ceil(history.calm_slot + SETTLE_SLOTS + observed))
    step_ns = SLOT_NS // LOOKS_PER_SLOT
    for look in range(1, slots * LOOKS_PER_SLOT + 1):
        world.run_until(look * step_ns + SLOT_NS // 7)  # not when slots begin: much is under way then
        checks.look()
    checks.at_the_end()
    world.stop_all_jobs()
    left_ns = world.now_ns
    world.run_until(left_ns + END_SLOTS * SLOT_NS)
    if world.refused_ns >= left_ns:  # the switch, having learned the time, ended a stream and lost this
        world.run_until(world.now_ns + ENTRY_SLOTS * SLOT_NS)
    checks.nothing_left()


def _longest_compute(history: History) -> float:
    return max((job.compute_slots for job in history.jobs), default=0.0)
