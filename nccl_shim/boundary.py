"""When an iteration ends: at the end of a backward pass that communicated.

Law: by then everything this iteration sends has been enqueued, whoever enqueued it (DDP's reducer, a user's
comm hook, FSDP). Passes under no_sync communicate nothing, so gradient accumulation is one iteration.
"""

from collections.abc import Callable

import torch

_NOT_IN_BACKWARD = -1


def in_backward() -> bool:
    """Whether the calling thread is inside a backward pass."""
    return torch._C._current_graph_task_id() != _NOT_IN_BACKWARD


class IterationBoundary:
    """Calls `mark` once at the end of each backward pass in which `communicated` was called, and `settle`
    after that, when DDP has waited for its buckets."""

    def __init__(self, mark: Callable[[], object], settle: Callable[[], object]) -> None:
        self._mark, self._settle = mark, settle
        self.armed = False

    def between_passes(self) -> None:
        """Call outside passes: one that raised never came to its end and must not silence later ones."""
        self.armed = False

    def communicated(self) -> None:
        """Call at each collective, from any place."""
        if not in_backward():
            self.between_passes()
        elif not self.armed:
            # Armed until the outermost pass ends: re-entrant checkpointing nests passes inside it.
            self.armed = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end)

    def _end(self) -> None:
        self.armed = False
        self._mark()
        # DDP queued its own wait when its last bucket was ready, so what is queued now runs after it.
        torch.autograd.Variable._execution_engine.queue_callback(self._settle)
