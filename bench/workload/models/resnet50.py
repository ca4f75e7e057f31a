"""ResNet-50 (He et al., 2016, table 1), with the stride in the 3×3 convolution, as it is trained today."""

import torch
from torch import nn

from bench.workload.models.staged import Staged

BLOCKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, bottlenecks, stride of the first
EXPANSION = 4
CLASSES = 1000
IMAGE_PIXELS = 224


def _convolution(channels: int, filters: int, kernel: int, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(filters))


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        filters = EXPANSION * width
        self.residual = nn.Sequential(
            _convolution(channels, width, 1), nn.ReLU(),
            _convolution(width, width, 3, stride), nn.ReLU(),
            _convolution(width, filters, 1),
        )  # fmt: skip
        is_identity = channels == filters and stride == 1
        self.shortcut = nn.Identity() if is_identity else _convolution(channels, filters, 1, stride)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.residual(value) + self.shortcut(value))


class ResNet50(Staged):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
        channels, stages = 64, list[nn.Module]()
        for width, count, first_stride in BLOCKS:
            for number in range(count):
                stages.append(Bottleneck(channels, width, 1 if number else first_stride))
                channels = EXPANSION * width
        self.stages = nn.ModuleList(stages)
        self.classes = nn.Linear(channels, CLASSES)

    def enter(self, batch: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.stem(batch)
        return value

    def leave(self, value: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classes(value.mean((2, 3)))
        return scores

    def random_batch(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.randn(size, 3, IMAGE_PIXELS, IMAGE_PIXELS, device=device)
        return images, torch.randint(CLASSES, (size,), device=device)
