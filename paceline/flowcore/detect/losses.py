"""Whether a path loses packets, from what a socket had to send again.

A queue that overflows loses many packets at once, and none for a while; at random a path loses some wherever one looks.
So several readings in a row must agree, a tenth of a second apart: where jobs and other flows overrun each other's
queues, hardly ever two in a row show any loss. Hence the limit can be low.
"""

LOSSY = 5e-4  # of what was sent
READ_BYTES = 250_000  # so much must have been sent to tell
READINGS = 4  # that agree


class Losses:
    """Of one socket; `look` some ten times a second."""

    def __init__(self) -> None:
        self.lossy = False
        self._acked_bytes = self._again_bytes = 0  # at the last reading,
        self._lost, self._alike = False, 0  # ... what it said, and how many in a row said so

    def look(self, acked_bytes: int, again_bytes: int) -> bool:
        """Whether its path loses packets, by the counters since the beginning; as before while too little was sent."""
        fresh_bytes = acked_bytes - self._acked_bytes
        if fresh_bytes >= READ_BYTES:
            lost = again_bytes - self._again_bytes >= LOSSY * fresh_bytes
            self._acked_bytes, self._again_bytes = acked_bytes, again_bytes
            self._lost, self._alike = lost, self._alike + 1 if lost == self._lost else 1
            if self._alike >= READINGS:
                self.lossy = lost
        return self.lossy
