"""The congestion control `paceline` (weighted.bpf.c) in the kernel, and what its sockets are told."""

import struct
from pathlib import Path
from typing import Self

from hostd.congestion.libbpf import BpfControl

OBJECT = Path(__file__).with_name("weighted.bpf.o")
NAME = "paceline"

_MILLI = struct.Struct("=I")


class Weighted:
    """Known to the kernel within the block. Raises BpfError where it cannot be had."""

    def __init__(self) -> None:
        self._control = BpfControl(OBJECT, NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._control.close()

    def tell(self, descriptor: int, weight: float) -> None:
        """The socket behind this descriptor, which has the control, stands for so many; raises OSError."""
        self._control.tell("weights", descriptor, _MILLI.pack(round(1000 * weight)))
