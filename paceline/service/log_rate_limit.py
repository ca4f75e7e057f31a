"""A log rate limit: an event that a bad peer can cause a thousand times a second is logged once per key and interval.

Memory is bounded by `max_keys`: while that many are held back, all further keys share one, so a peer that invents names
gets no more lines. Metrics count every event; this only keeps the log readable.
"""

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

_ALL_FURTHER = object()


@dataclass(slots=True)
class _Window:
    ends_s: float
    held_back: int = 0


class LogRateLimit:
    def __init__(self, every_s: float = 30.0, max_keys: int = 256, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s, self._max_keys, self._clock = every_s, max_keys, clock
        self._windows: dict[Hashable, _Window] = {}  # in the order in which they end

    def passes(self, key: Hashable) -> int | None:
        """None: held back. Otherwise the event may be logged, and this many with its key were held back before."""
        now_s = self._clock()
        if key not in self._windows and len(self._windows) >= self._max_keys:
            self._forget_ended(now_s)
            if len(self._windows) >= self._max_keys:
                key = _ALL_FURTHER
        window = self._windows.get(key)
        if window is not None and now_s < window.ends_s:
            window.held_back += 1
            return None
        self._windows.pop(key, None)  # so that the new one goes to the end
        self._windows[key] = _Window(now_s + self._every_s)
        return window.held_back if window is not None else 0

    def log(
        self,
        logger: logging.Logger,
        level: int,
        key: Hashable,
        message: str,
        *arguments: object,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Logs, unless an event with this key was logged lately; `held_back` says how many were not logged."""
        held_back = self.passes(key)
        if held_back is not None:
            fields = {**(extra or {}), **({"held_back": held_back} if held_back else {})}
            logger.log(level, message, *arguments, extra=fields, stacklevel=2)

    def _forget_ended(self, now_s: float) -> None:
        for key, window in list(self._windows.items()):
            if now_s < window.ends_s:
                return
            del self._windows[key]
