"""Peak memory, as the kernel counted it."""

import resource

QUARTERS = 4


def peak_memory_mb() -> float:
    """Resident, of this process and its largest child, so far."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(sum(used) * 1024 / 1e6, 1)


class PeakByQuarter:
    """Peak memory of this process when each quarter of the work was done: what grows with the work shows there."""

    def __init__(self) -> None:
        self.mb: list[float] = []

    def told(self, done: float) -> None:
        """So much of it is done, from 0 to 1."""
        while len(self.mb) < min(QUARTERS, int(QUARTERS * done)):
            self.mb.append(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1))
