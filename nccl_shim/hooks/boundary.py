"""When an iteration ends: at the end of a backward pass that communicated.

Law: by then everything this iteration sends has been enqueued, be it by DDP's reducer, a user's
comm hook or FSDP, and DDP has waited for its buckets: on a CPU backend they have been sent, too. Passes under no_sync
communicate nothing, so gradient accumulation is one iteration.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_NOT_IN_BACKWARD = -1


def in_backward() -> bool:
    """Whether the calling thread is inside a backward pass."""
    return bool(torch._C._current_graph_task_id() != _NOT_IN_BACKWARD)


class IterationBoundary:
    """Calls `end` once at the end of each backward pass in which `communicated` was called."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
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
            torch.autograd.Variable._execution_engine.queue_callback(self._last_bucket_is_ready)

    def _last_bucket_is_ready(self) -> None:
        # DDP queued its own wait when its last bucket was ready, so what is queued now runs after it.
        torch.autograd.Variable._execution_engine.queue_callback(self._pass_ended)

    def _pass_ended(self) -> None:
        self.armed = False
        self._end()
