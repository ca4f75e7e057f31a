"""A resource offer, as Mesos and Dally call it: what one job may have in a round. It has the GPUs that are free, and
those of jobs that may be stopped for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.cluster.state import ClusterState, Workers


@dataclass(slots=True)
class Offer:
    state: ClusterState  # as the round has left it so far
    now_s: float
    behind: list[str] = field(default_factory=list)  # jobs that may be stopped; the last goes first

    def least_disturbing(self, found: Callable[[Workers], Workers | None]) -> Workers | None:
        """What `found` finds among free GPUs, or else when as few as possible of those behind were stopped.

        `found` must not lose by more GPUs being free.
        """
        workers = found(self.state.free)
        if workers is not None or not self.behind:
            return workers
        best = found(self._without(len(self.behind)))
        too_few, enough = 0, len(self.behind)
        while best is not None and enough - too_few > 1:
            stopped = (too_few + enough) // 2
            workers = found(self._without(stopped))
            if workers is None:
                too_few = stopped
            else:
                best, enough = workers, stopped
        return best

    def _without(self, stopped: int) -> Workers:
        """Free GPUs if so many of those behind were stopped."""
        free = dict(self.state.free)
        for name in self.behind[len(self.behind) - stopped :]:
            for server, gpus in self.state.placed[name].items():
                free[server] += gpus
        return free
