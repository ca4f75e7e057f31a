"""A job's minute, as a line of the history."""

import json
from dataclasses import asdict, dataclass

from hostd.introspect.estimate import estimate_of
from hostd.introspect.host_view import HostView


@dataclass(frozen=True, slots=True)
class Minute:
    time_s: int  # since 1970, at its end
    job: str  # with its tenant
    mode: str  # of hostd
    paced: bool  # at its end
    iterations: int
    iteration_ms: float  # mean
    slowdown: float  # against alone, estimated

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Minute | None":
        """None: it was cut short by a crash, or another version wrote it."""
        try:
            found = json.loads(line)
            return cls(
                int(found["time_s"]),
                str(found["job"]),
                str(found["mode"]),
                bool(found["paced"]),
                int(found["iterations"]),
                float(found["iteration_ms"]),
                float(found["slowdown"]),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


def minutes_of(view: HostView, time_s: int, since_ns: int) -> list[Minute]:
    """Of the jobs that have ended iterations since then."""
    found = []
    for name, job in sorted(view.jobs.items()):
        if (estimate := estimate_of(view, job, since_ns)) is not None:
            found.append(
                Minute(
                    time_s,
                    name,
                    view.mode,
                    view.is_paced(name),
                    estimate.iterations,
                    round(estimate.iteration_ns / 1e6, 3),
                    round(estimate.slowdown, 4),
                )
            )
    return found
