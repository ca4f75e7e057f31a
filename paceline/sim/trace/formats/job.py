"""One job of a trace: when it comes, what it asks for, and what one of its iterations is."""

from dataclasses import dataclass

from paceline.flowcore.model.scenario import Pattern
from paceline.sim.all_reduce import exchange_s
from paceline.sim.trace.profiles import ModelProfile

# Of an iteration at least this much is computing, whatever the estimate of its communication says.
LEAST_COMPUTE = 0.1


@dataclass(frozen=True, slots=True)
class TraceJob:
    name: str
    arrival_s: float
    gpus: int
    model: str
    model_mb: float
    compute_s: float  # per iteration
    iterations: int
    pattern: Pattern = Pattern.ALLREDUCE
    servers: int = 0  # of a parameter server: so many of its GPUs are servers'; 0: servers are beside workers


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that can never run, and why."""

    job: str
    reason: str


def compute_of(iteration_s: float, profile: ModelProfile, gpus: int) -> float:
    """What remains of an iteration without its exchange."""
    return max(iteration_s - exchange_s(profile.size_mb, gpus), LEAST_COMPUTE * iteration_s)
