"""The congestion control `paceline` (weighted.bpf.c) in the kernel, and what its sockets are told."""

import struct
from pathlib import Path

from hostd.congestion.libbpf import BpfControl, BpfError

OBJECT = Path(__file__).with_name("weighted.bpf.o")
NAME = "paceline"

_TOLD = "told"
_VALUE = struct.Struct("=II")


class Weighted(BpfControl):
    """Raises BpfError where it cannot be had."""

    def __init__(self, known_as: str | None = None, *, register: bool = True) -> None:
        super().__init__(OBJECT, NAME, known_as, register=register)

    @property
    def told_fd(self) -> int:
        """The map in which stands what sockets are told."""
        return self._storage_fd(_TOLD)

    def tell(self, descriptor: int, weight: float, *, lossy: bool = False) -> None:
        """The socket behind this descriptor, which has the control, stands for so many; raises OSError.

        `lossy`: its path loses packets at random."""
        self._tell(_TOLD, descriptor, packed(weight, lossy))


def packed(weight: float, lossy: bool) -> bytes:
    """As the program reads it."""
    return _VALUE.pack(round(1000 * weight), lossy)


def why_not() -> str:
    """Why it cannot be had here, in a line; nothing where it can. Registers nothing."""
    try:
        with Weighted(register=False):
            return ""
    except BpfError as error:
        return str(error)
