"""A communication task: one all-reduce of one iteration of one job (Ada-SRSF §III-B)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    job: str
    servers: frozenset[str]
    size_bytes: float  # the message, M


@dataclass(frozen=True, slots=True)
class Running:
    task: Task
    remaining_bytes: float


Gate = Callable[[Task, Sequence[Running]], bool]


def most_on_a_server(task: Task, running: Iterable[Running]) -> int:
    """How many tasks run on the busiest of a task's servers."""
    running = list(running)
    return max((sum(server in other.task.servers for other in running) for server in task.servers), default=0)
