"""Which launches of bursts wait, where a launch is all that can be held: no rate is set (backend `gate`).

Of a flow f that is guaranteed g_f and may borrow up to the ceiling c_f, on a host whose NICs carry u:

    may_f  =  max( g_f,  min( c_f,  u − Σ g of the host's other jobs ) )

    turn   some g_f > nearly nothing, and no may_f is nearly nothing; or no limit at all: nobody competes with the job
    wait   some may_f is nearly nothing: another job has the turn
    rest   neither: not asked for, or not answered

A job that waits is *held*, also before it launches: what has begun is not stopped. It must *ask*, so that a launch
waits for the switch's answer, where the host alone cannot know:

    several jobs have waited for a turn that has ended here           until one of them has the next
    jobs launched at one moment, and one of them was given the turn   at its next launch, which sets them apart
    jobs meet on another host's links                                 for LATELY_NS

Else it is *open*: an answer takes some milliseconds, so jobs that do not meet, and jobs alone, wait for none.

Tried and rejected: leaving a job open that the switch let begin beside the one that has the turn when they last met (it
was right then, for what was left of both); asking before every launch (an iteration loses an answer's time, and jobs
that interleave need none); letting the job that has waited longest go before the switch has answered (hosts choose
different jobs, and halves of two jobs hold the links of each other).

Law: a job is held as a whole. Its flows on this host share one state; and since a switch divides jobs, not flows, its
hosts hear the same within a message's time.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from paceline.flowcore.messages.events import FLOOR_BPS, Limit

NEARLY_NOTHING = 0.1  # of the NIC
LATELY_NS = 3_000_000_000


class Turn(Enum):
    HAS = "turn"
    WAITS = "wait"  # for a job of this host
    WAITS_AFAR = "wait afar"  # for another host's: its ceiling says so
    RESTS = "rest"


class Launch(Enum):
    OPEN = "open"
    HELD = "held"
    ASK = "ask"


def turns(limits: Iterable[Limit], nic_bps: float, host_bps: float) -> dict[str, Turn]:
    """Of every job with a limit."""
    of_job: dict[str, list[Limit]] = {}
    for limit in limits:
        of_job.setdefault(limit.flow.job, []).append(limit)
    guaranteed = {job: sum(one.guaranteed_bps for one in them) for job, them in of_job.items()}
    taken_bps, nothing_bps = sum(guaranteed.values()), max(NEARLY_NOTHING * nic_bps, FLOOR_BPS)
    found = {}
    for job, them in of_job.items():
        left_bps = max(0.0, host_bps - (taken_bps - guaranteed[job]))
        may_bps = min(max(one.guaranteed_bps, min(one.ceiling_bps, left_bps)) for one in them)
        if all(one.lifted for one in them):
            found[job] = Turn.HAS  # it is left alone, and nobody will say more
        elif may_bps <= nothing_bps:
            afar = any(max(one.guaranteed_bps, one.ceiling_bps) <= nothing_bps for one in them)
            found[job] = Turn.WAITS_AFAR if afar else Turn.WAITS
        else:
            found[job] = Turn.HAS if guaranteed[job] > nothing_bps else Turn.RESTS
    return found


class Launches:
    """Of one host's jobs."""

    def __init__(self, slot_ns: int, nic_bps: float, host_bps: float) -> None:
        self._slot_ns, self._nic_bps, self._host_bps = slot_ns, nic_bps, host_bps
        self._says: dict[str, Launch] = {}
        self._asks_once: set[str] = set()  # jobs that launched when another one did
        self._met_afar_ns: dict[str, int] = {}  # when a job last had to wait for another host's
        self._launched_ns: dict[str, int] = {}  # jobs with bytes that wait, since they were seen to

    def forget(self, job: str) -> None:
        self._says.pop(job, None)
        self._asks_once.discard(job)
        self._met_afar_ns.pop(job, None)

    def decide(self, limits: Iterable[Limit], live: Iterable[str], now_ns: int) -> Mapping[str, Launch]:
        """Of every job with a limit; `live`: the jobs with bytes that wait to be sent."""
        found = turns(limits, self._nic_bps, self._host_bps)
        self._launched_ns = {job: self._launched_ns.get(job, now_ns) for job in live if job in found}
        waiting = {job for job in self._launched_ns if self._says.get(job, Launch.OPEN) is not Launch.OPEN}
        self._says = {job: self._launch(job, turn, now_ns, waiting) for job, turn in found.items()}
        return self._says

    def _has_just_launched(self, job: str, now_ns: int) -> bool:
        return job in self._launched_ns and now_ns - self._launched_ns[job] < self._slot_ns

    def _launch(self, job: str, turn: Turn, now_ns: int, waiting: set[str]) -> Launch:
        if turn is Turn.HAS:
            self._asks_once.discard(job)
            return Launch.OPEN
        if turn is Turn.WAITS_AFAR:
            self._met_afar_ns[job] = now_ns
            return Launch.HELD
        if turn is Turn.WAITS:
            if job not in waiting and self._has_just_launched(job, now_ns):
                self._asks_once.add(job)
            return Launch.HELD
        if job in waiting:
            return Launch.ASK if len(waiting) > 1 or self._met_afar(job, now_ns) else Launch.OPEN
        return Launch.ASK if job in self._asks_once or self._met_afar(job, now_ns) else Launch.OPEN

    def _met_afar(self, job: str, now_ns: int) -> bool:
        return job in self._met_afar_ns and now_ns - self._met_afar_ns[job] < LATELY_NS
