"""Whether what others send over a host's own link is of no job, by samples of which connections have bytes to send.

Others are whoever is in no class: programs that hostd knows nothing of, but also jobs that are left to TCP. Beside the
latter a job that nobody competes with has nothing to be guarded from, and is one of TCP's as well; among *foreign*
traffic it keeps its part of the link.

    foreign    connections of no job hold LEAST_BYTES, or nobody holds any, SILENT samples in a row: it is no TCP
    and until  nothing of that was seen for MEMORY_NS

Samples are taken while others send much. A connection that asks or answers now and then holds less than LEAST_BYTES.
"""

LEAST_BYTES = 16_384
SILENT = 16
MEMORY_NS = 5_000_000_000


class ForeignTraffic:
    def __init__(self) -> None:
        self._until_ns: int | None = None
        self._silent = 0  # samples in a row in which nobody had anything to send

    def sample(self, connections: int, foreign_bytes: int, now_ns: int) -> None:
        """So many of others had something to send, those of no job so much."""
        self._silent = 0 if connections else self._silent + 1
        if foreign_bytes >= LEAST_BYTES or self._silent >= SILENT:
            self._until_ns = now_ns + MEMORY_NS

    def is_there(self, now_ns: int) -> bool:
        return self._until_ns is not None and now_ns < self._until_ns
