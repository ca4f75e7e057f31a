"""Peak memory, as the kernel counted it."""

import resource


def peak_memory_mb() -> float:
    """Resident, of this process and its largest child, so far."""
    used = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(sum(used) * 1024 / 1e6, 1)
