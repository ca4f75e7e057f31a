"""How long a job waits for a better tier: Dally's delay timers and their auto-tuner (§IV-B2, §IV-B3).

    accept a machine at once, a rack after T_Mc, anything after T_Rk                     Algorithm 1
    T = mean + 2 · sample standard deviation of what jobs waited                         Algorithm 2
        of the same tier and GPU demand, accepted within the last HISTORY_TIME_LIMIT

A job that cannot fit a machine has T_Mc = 0, a job that cannot fit a rack has both 0. Where the paper is silent: a list
that is empty gives the default (12 h, 24 h), one value gives itself, and T_Rk is never below T_Mc, since a job that
still holds out for a machine would not look at a rack.
"""

from dataclasses import dataclass, field
from math import inf
from statistics import fmean, stdev

from paceline.cluster.tiers import Tier

HOUR_S = 3600.0
SIGMAS = 2.0  # "95 % confidence"


@dataclass(frozen=True, slots=True)
class Timers:
    machine_s: float  # T_Mc
    rack_s: float  # T_Rk, from the same moment

    def accepts(self, tier: Tier, waited_s: float) -> bool:
        """Algorithm 1: whether a job that has waited so long takes an offer on this tier."""
        return waited_s >= (0.0, self.machine_s, self.rack_s)[tier]

    def for_best(self, best: Tier) -> "Timers":
        """A job does not wait for a tier that it can never have."""
        return Timers(self.machine_s if best is Tier.MACHINE else 0.0, self.rack_s if best is not Tier.NETWORK else 0.0)


MANUAL = Timers(12 * HOUR_S, 24 * HOUR_S)
NO_WAIT = Timers(0.0, 0.0)
FULLY_CONSOLIDATED = Timers(inf, inf)


@dataclass(slots=True)
class AutoTuner:
    history_s: float = 7 * 24 * HOUR_S  # HISTORY_TIME_LIMIT
    default: Timers = MANUAL
    _waits: dict[tuple[Tier, int], list[tuple[float, float]]] = field(default_factory=dict)  # (accepted at, waited)

    def update_demand_delay(self, tier: Tier, waited_s: float, gpus: int, now_s: float) -> None:
        """A job accepted an offer on this tier after waiting so long."""
        self._waits.setdefault((tier, gpus), []).append((now_s, waited_s))

    def timers(self, gpus: int, now_s: float) -> Timers:
        """get_tuned_timers: Algorithm 2."""
        machine_s = self._tuned(Tier.MACHINE, gpus, now_s, self.default.machine_s)
        return Timers(machine_s, max(machine_s, self._tuned(Tier.RACK, gpus, now_s, self.default.rack_s)))

    def _tuned(self, tier: Tier, gpus: int, now_s: float, default_s: float) -> float:
        entries = self._waits.get((tier, gpus), [])
        while entries and entries[0][0] < now_s - self.history_s:
            entries.pop(0)
        waits = [waited_s for _, waited_s in entries]
        if not waits:
            return default_s
        return fmean(waits) + (SIGMAS * stdev(waits) if len(waits) > 1 else 0.0)
