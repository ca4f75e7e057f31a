"""SRSF(n) (Ada-SRSF §V): at most n communications on any server; n = 1 avoids all contention."""

from collections.abc import Sequence

from paceline.flowcore.allocation.gates.task import Gate, Running, Task, most_on_a_server


def at_most(tasks: int) -> Gate:
    def may_start(task: Task, running: Sequence[Running]) -> bool:
        return most_on_a_server(task, running) < tasks

    return may_start


def remaining_service_s(gpus: int, iterations: int, compute_s: float, exchange_s: float) -> float:
    """L_J: what a job still needs, in GPU seconds (eq. 7, 8). Least first."""
    return gpus * iterations * (compute_s + exchange_s)
