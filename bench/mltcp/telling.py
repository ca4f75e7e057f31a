"""Tells the sockets of a run's jobs what MLTCP must know: how much of an iteration each carries, and the compute time.

MLTCP's authors give both to the job's own sockets. Here a thread finds the sockets, as hostd does: the jobs' counters
say which processes there are, and /proc which sockets those have. A flow's bytes are divided among its sockets.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.mltcp.control import Iteration, Mltcp
from hostd.kernel.pidfd import SocketGone, duplicated_socket
from hostd.kernel.sockets import DataSocket, ProcessSockets, by_host
from nccl_shim.segment.reader import Reader
from paceline.flowcore.model.patterns import flows_of
from paceline.flowcore.model.scenario import JobSpec

LOOK_S = 0.1
LEAST_BYTES = 1  # a socket that has sent anything


class Teller:
    """`line` is F's slope and intercept."""

    def __init__(
        self,
        mltcp: Mltcp,
        host_of: Mapping[str, str],
        counters: Mapping[str, Path],
        line: tuple[float, float],
    ) -> None:
        """Hosts by address, and each host's counters."""
        self._mltcp, self._host_of, self._line = mltcp, host_of, line
        self._readers = {host: Reader(directory) for host, directory in counters.items()}
        self._processes: dict[int, ProcessSockets] = {}
        self._told: dict[int, Iteration] = {}  # by the socket's cookie
        self._compute_s: dict[str, float] = {}
        self._sizes: Mapping[tuple[str, str, str], int] = {}

    def add(self, name: str, job: JobSpec) -> None:
        """`name` is the job's in its counters. One that was added before has other hosts now."""
        sizes = Counter({key: size for key, size in self._sizes.items() if key[0] != name})
        for one in flows_of(job):
            sizes[name, one.flow.source, one.flow.target] += round(one.size_bytes)
        self._compute_s[name] = job.compute_s
        self._sizes = sizes  # at once: a thread reads it

    def look(self) -> None:
        for host, reader in self._readers.items():
            for view in reader.poll():
                pid, job = view.snapshot.pid, view.snapshot.job
                process = self._processes.setdefault(pid, ProcessSockets(pid, LEAST_BYTES))
                process.look()
                for target, sockets in by_host(process.sockets, self._host_of, host).items():
                    self._tell(job, self._sizes.get((job, host, target), 0), sockets)

    def _tell(self, job: str, size_bytes: int, sockets: tuple[DataSocket, ...]) -> None:
        if not size_bytes:
            return
        iteration = Iteration(size_bytes / len(sockets), self._compute_s[job], *self._line)
        for one in sockets:
            if self._told.get(one.cookie) != iteration:
                with suppress(SocketGone, OSError), duplicated_socket(one.pid, one.fd, one.cookie) as duplicate:
                    self._mltcp.tell(duplicate.fileno(), iteration)
                    self._told[one.cookie] = iteration


@contextmanager
def telling(teller: Teller) -> Iterator[None]:
    """Ten times a second, within the block."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LOOK_S):
            teller.look()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
