"""The congestion control `paceline` (weighted.bpf.c) in the kernel, and what its sockets are told."""

import struct
from pathlib import Path

from hostd.congestion.libbpf import BpfControl, BpfError

OBJECT = Path(__file__).with_name("weighted.bpf.o")
NAME = "paceline"

_WEIGHTS = "weights"
_MILLI = struct.Struct("=I")


class Weighted(BpfControl):
    """Raises BpfError where it cannot be had."""

    def __init__(self, known_as: str | None = None, *, register: bool = True) -> None:
        super().__init__(OBJECT, NAME, known_as, register=register)

    @property
    def weights_fd(self) -> int:
        """The map in which sockets' weights stand."""
        return self._storage_fd(_WEIGHTS)

    def tell(self, descriptor: int, weight: float) -> None:
        """The socket behind this descriptor, which has the control, stands for so many; raises OSError."""
        self._tell(_WEIGHTS, descriptor, packed(weight))


def packed(weight: float) -> bytes:
    """As the program reads it."""
    return _MILLI.pack(round(1000 * weight))


def why_not() -> str:
    """Why it cannot be had here, in a line; nothing where it can. Registers nothing."""
    try:
        with Weighted(register=False):
            return ""
    except BpfError as error:
        return str(error)
