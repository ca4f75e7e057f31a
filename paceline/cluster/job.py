"""What a scheduler may know of a job at one moment. A driver makes these anew for every round; they never change."""

from dataclasses import dataclass
from math import inf

from paceline.cluster.state import Request


@dataclass(frozen=True, slots=True)
class Job(Request):
    arrival_s: float = 0.0
    running_since_s: float = inf  # inf: it waits
    waiting_since_s: float = 0.0  # it arrived, or lost its GPUs, then
    run_s: float = 0.0  # with GPUs so far, all its runs together
    iterations: int = 1
    iterations_done: int = 0
    compute_s: float = 0.0  # of an iteration, without communication
    model_mb: float = 0.0  # exchanged per iteration
    skewed: bool = False  # one tensor is most of the model

    @property
    def running(self) -> bool:
        return self.running_since_s < inf
