"""A timer that rings when it should, on the running event loop.

uvloop counts whole milliseconds and rounds: a delay of 0.4 ms is none, and a callback that finds itself early asks
again, and again. Where links are handed over within two milliseconds that is either late or a busy wait. The kernel's
timerfd is neither.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

from paceline.flowcore.model.units import NS_PER_S

_MONOTONIC, _FLAGS = 1, os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _Setting(ctypes.Structure):
    """struct itimerspec: how often again (never), and when first."""

    _fields_ = [(name, ctypes.c_long) for name in ("again_s", "again_ns", "after_s", "after_ns")]


class Timer:
    """Rings once for each `set`; a later `set` replaces an earlier one."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer = _libc.timerfd_create(_MONOTONIC, _FLAGS)
        if self._timer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._setting = _Setting()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._timer, self._rang)

    def set(self, delay_ns: int) -> None:
        """From now on; what is over already rings at once."""
        # All zeros would mean never.
        self._setting.after_s, self._setting.after_ns = divmod(max(1, delay_ns), NS_PER_S)
        _libc.timerfd_settime(self._timer, 0, ctypes.byref(self._setting), None)

    def close(self) -> None:
        self._loop.remove_reader(self._timer)
        os.close(self._timer)

    def _rang(self) -> None:
        try:
            os.read(self._timer, 8)
        except BlockingIOError:
            return  # set anew between ringing and being heard
        self._ring()
