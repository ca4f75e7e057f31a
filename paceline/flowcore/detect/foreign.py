"""Whether some of what others send over a host's own link is *foreign*: of no job.

Others are whoever is in no class of HTB: programs that hostd knows nothing of, but also jobs that are left to TCP or
left alone. Beside the latter a job that nobody competes with has nothing to be guarded from, and is one of TCP's as
well; beside foreign traffic it keeps its part of the link.

    foreign    =  what others sent while they sent much  −  what the connections of such jobs sent since
    there      if that is MUCH of the link in TWICE samples in a row, and until it was not for MEMORY_NS

Once is not enough: bytes that lay in a queue at one sample have left by the next, and a job's connections may be found
later than they send. What is no TCP, or of another network namespace, is no connection of a job here, and so foreign.
"""

from collections.abc import Mapping

from paceline.flowcore.model.units import rate_bps

MUCH = 0.05  # of the link
TWICE = 2
MEMORY_NS = 5_000_000_000


class ForeignTraffic:
    def __init__(self) -> None:
        self._others_bytes, self._took_ns = 0.0, 0  # since the last sample, and how long they took for it
        self._of_jobs: dict[int, float] = {}  # what each connection had sent by then
        self._in_a_row = 0
        self._until_ns: int | None = None

    def sent(self, others_bytes: float, took_ns: int) -> None:
        """By others, and much."""
        self._others_bytes += others_bytes
        self._took_ns += took_ns

    def sample(self, of_jobs: Mapping[int, float], link_bps: float, now_ns: int) -> None:
        """What each connection of jobs that are in no class has sent so far, on the wire."""
        since_bytes = sum(sent - self._of_jobs.get(one, 0.0) for one, sent in of_jobs.items())
        foreign_bytes = max(0.0, self._others_bytes - since_bytes)
        if self._took_ns > 0:
            is_much = rate_bps(foreign_bytes, self._took_ns) > MUCH * link_bps
            self._in_a_row = self._in_a_row + 1 if is_much else 0
        if self._in_a_row >= TWICE:
            self._until_ns = now_ns + MEMORY_NS
        self._others_bytes, self._took_ns, self._of_jobs = 0.0, 0, dict(of_jobs)

    def is_there(self, now_ns: int) -> bool:
        return self._until_ns is not None and now_ns < self._until_ns
