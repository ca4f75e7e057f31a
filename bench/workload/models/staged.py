"""A model as a chain of stages of about equal work, whose computing can be stretched stage by stage.

    forward    enter, then every stage and its pause of a, then leave
    backward   leave, then every stage's pause of 2·a and the stage, the last stage first, then enter

All ranks of all jobs share one GPU. A batch that fills an iteration, or one that is repeated until it does, would fill
the GPU, and the jobs would slow one another down there, which no network can mend. So a batch is small, and pauses
between the stages give each stage the time that it would take with a larger batch: gradients come in their real order,
and as far apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Sleep = Callable[[float], None]  # seconds; on the host, or on the GPU's stream


class Pace:
    """The pauses of a model's stages; `stretch` sets what they take together."""

    def __init__(self, sleep: Sleep, stages: int) -> None:
        self._sleep, self._stages = sleep, stages
        self._forward_s = 0.0

    def stretch(self, pauses_s: float) -> None:
        """A third of it in the forward pass."""
        self._forward_s = max(0.0, pauses_s) / 3 / self._stages

    def forward(self) -> None:
        self._sleep(self._forward_s)

    def backward(self) -> None:
        self._sleep(2 * self._forward_s)


class _Pause(torch.autograd.Function):
    """After a stage, and so before its gradients in the backward pass."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, pace: Pace) -> torch.Tensor:
        context.pace = pace
        pace.forward()
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        context.pace.backward()
        return gradient, None


class Staged(nn.Module, ABC):
    """Its forward pass returns the loss of a batch."""

    stages: nn.ModuleList
    pace: Pace | None = None

    @abstractmethod
    def enter(self, batch: torch.Tensor) -> torch.Tensor:
        """What comes before the first stage."""

    @abstractmethod
    def leave(self, value: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, one row for each target."""

    @abstractmethod
    def random_batch(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets."""

    def forward(self, batch: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        value = self.enter(batch)
        for stage in self.stages:
            value = stage(value)
            if self.pace is not None:
                value = _Pause.apply(value, self.pace)
        return F.cross_entropy(self.leave(value), targets)
