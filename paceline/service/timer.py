"""A timer with the kernel's precision, on the running event loop: timerfd_create(2).

uvloop counts whole milliseconds and rounds: a delay of 0.4 ms is none, and a callback that comes early has to set its
timer again and again. Where links are handed over within two milliseconds that is either late or a busy wait. The
kernel's timerfd is neither.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

from paceline.flowcore.model.units import NS_PER_S

_MONOTONIC, _FLAGS = 1, os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _Setting(ctypes.Structure):
    """struct itimerspec: the interval (none), and the first expiry."""

    _fields_ = [(name, ctypes.c_long) for name in ("again_s", "again_ns", "after_s", "after_ns")]


class Timer:
    """Calls `callback` once for each `set`; a later `set` replaces an earlier one."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._fd = _libc.timerfd_create(_MONOTONIC, _FLAGS)
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._setting = _Setting()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._expired)

    def set(self, delay_ns: int) -> None:
        """Counted from now; a delay that is over already expires at once."""
        # All zeros would mean never.
        self._setting.after_s, self._setting.after_ns = divmod(max(1, delay_ns), NS_PER_S)
        _libc.timerfd_settime(self._fd, 0, ctypes.byref(self._setting), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # set anew between its expiry and this call
        self._callback()
