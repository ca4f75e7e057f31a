"""How much time the segments of one user may cost. Law: a user whose processes have something new at every look, in as
many records as there can be, takes no more than PART of a core; what is more is read later.

    owed  ←  max(owed, now) + took / PART        for each reading
    read while owed − now < AHEAD_NS

Pure: the caller has the clocks.
"""

from __future__ import annotations

PART = 0.1
AHEAD_NS = 250_000_000


class ReadingTime:
    def __init__(self) -> None:
        self._owed_ns: dict[int, float] = {}  # by uid: when it will have paid

    def is_left(self, uid: int, now_ns: int) -> bool:
        return self._owed_ns.get(uid, 0.0) - now_ns < AHEAD_NS

    def spent(self, uid: int, took_ns: int, now_ns: int) -> None:
        self._owed_ns[uid] = max(self._owed_ns.get(uid, 0.0), now_ns) + took_ns / PART
