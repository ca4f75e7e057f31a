"""The congestion control `paceline` (weighted.bpf.c) in the kernel, and what its sockets are told."""

import struct
from pathlib import Path

from hostd.congestion.libbpf import BpfControl

OBJECT = Path(__file__).with_name("weighted.bpf.o")
NAME = "paceline"

_MILLI = struct.Struct("=I")


class Weighted(BpfControl):
    """Raises BpfError where it cannot be had."""

    def __init__(self) -> None:
        super().__init__(OBJECT, NAME)

    def tell(self, descriptor: int, weight: float) -> None:
        """The socket behind this descriptor, which has the control, stands for so many; raises OSError."""
        self._tell("weights", descriptor, _MILLI.pack(round(1000 * weight)))
