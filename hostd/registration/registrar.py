"""The registrar: a process beside hostd that jobs hand their counters to.

    job ── connect, one message ──▶ registrar ── fork ──▶ receiver (receiver.py), of one user, for a moment
                                        │ ◀──── sealed memory ────┘
                                        ▼
                                      hostd      memory, pid, start time, uid

Who sends is the kernel's word: uid and pid of the connection, and a pidfd, which is of that process and of no later one
with its pid. A registration ends with the connection or the process, whichever is first: children of a job may hold the
connection open, and an exec closes it.

Law: no user costs another anything but time of this process, which takes MOST_BUSY of a core; none has more than
MOST_OF_USER connections, nor a process more than MOST_OF_PROCESS; a silent one is closed after SILENT_S; and no
descriptor that a job has sent is ever received here. It ends with hostd, or when another has taken its socket's place.
"""

import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostd.registration.batch import MOST_AT_ONCE, Batch
from hostd.registration.peer import Peer, Unknown, peer_of
from hostd.registration.protocol import MOST_NAMED, Refusal
from hostd.workers.worker_process import Budget

MOST_OF_USER, MOST_OF_PROCESS = 512, 8
MOST_CONNECTIONS = 4096
MOST_BATCHES, MOST_STUCK = 8, 4  # receivers at once; those of a user that do not end
SILENT_S = 2.0
RECEIVING_S = 0.5
TURN_S, TOLD_S = 0.5, 0.5
MOST_ACCEPTED = 64  # in a turn
MOST_BUSY, BUSY_AT_ONCE_S = 0.1, 0.2
NICE = 5  # more than hostd's own
IMPATIENT_S = 0.002


class Registrar:
    def __init__(self, path: Path, channel: socket.socket) -> None:
        """Listens; raises OSError."""
        self._path, self._channel = path, channel
        channel.setblocking(False)
        self._listener = listening(path)
        self._inode = path.stat().st_ino
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(channel, select.EPOLLIN)
        self._peers: dict[int, Peer] = {}  # by descriptors: of the connection, and of the process
        self._of_user: Counter[int] = Counter()
        self._of_process: Counter[int] = Counter()
        self._ready: dict[int, list[Peer]] = {}  # whose message waits, by uid
        self._batches: dict[int, Batch] = {}  # by their channels' descriptors
        self._stuck: list[Batch] = []
        self._outbox: deque[tuple[bytes, Peer | None]] = deque()
        self._closing: list[Peer] = []
        self._refused: Counter[str] = Counter()
        self._named: deque[tuple[int, int, str]] = deque(maxlen=MOST_NAMED)
        self._number = time.monotonic_ns()  # no other registrar's
        self._told_s = self._looked_s = time.monotonic()
        self._over = False
        most_open = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = min(MOST_CONNECTIONS, (most_open - 64) // 2)

    def run(self) -> None:
        busy, spent_s = Budget(MOST_BUSY, BUSY_AT_ONCE_S), _cpu_s()
        while not self._over:
            self.turn(TURN_S)
            before_s, spent_s = spent_s, _cpu_s()
            busy.spend(spent_s - before_s)
            while not busy.left_s(time.monotonic()):
                time.sleep(0.01)

    def turn(self, wait_s: float) -> None:
        for descriptor, events in self._epoll.poll(wait_s):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor == self._channel.fileno():
                self._over |= bool(events & ~select.EPOLLOUT)  # hostd says nothing: it has gone
            elif descriptor in self._batches:
                self._hear(self._batches[descriptor])
            elif (peer := self._peers.get(descriptor)) is not None:
                self._stirred(peer, descriptor, events)
        now_s = time.monotonic()
        self._keep_house(now_s)
        self._receive(now_s)
        self._tell(now_s)
        self._close()

    # ---- Connections ----

    def _accept(self) -> None:
        for _ in range(MOST_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setblocking(False)
            try:
                peer = peer_of(connection)
            except Unknown as unknown:
                self._refuse(Peer(connection, None, unknown.pid, 0, unknown.uid), Refusal.PROCESS)
                continue
            if (
                self._of_user[peer.uid] >= MOST_OF_USER
                or self._of_process[peer.pid] >= MOST_OF_PROCESS
                or sum(self._of_user.values()) >= self._most
            ):
                self._refuse(peer, Refusal.QUOTA)
            elif sum(one.uid == peer.uid and one.age_s() > RECEIVING_S for one in self._stuck) >= MOST_STUCK:
                self._refuse(peer, Refusal.HELD)
            else:
                self._of_user[peer.uid] += 1
                self._of_process[peer.pid] += 1
                for descriptor in peer.descriptors():
                    self._peers[descriptor] = peer
                    self._epoll.register(descriptor, select.EPOLLIN)

    def _stirred(self, peer: Peer, descriptor: int, events: int) -> None:
        if events == select.EPOLLIN and descriptor == peer.connection.fileno():
            self._epoll.modify(descriptor, 0)  # from now on its end only
            peer.waits = True
            self._ready.setdefault(peer.uid, []).append(peer)
        else:
            self._end(peer)

    def _end(self, peer: Peer) -> None:
        """The connection or the process has."""
        if peer.number:
            self._send(marshal.dumps(("gone", peer.number)))
        self._drop(peer)

    def _refuse(self, peer: Peer, why: Refusal) -> None:
        self._refused[why.value] += 1
        self._named.append((peer.pid, peer.uid, why.value))
        self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        if peer.over:
            return
        peer.over = True
        if self._peers.get(peer.connection.fileno()) is peer:
            for descriptor in peer.descriptors():
                del self._peers[descriptor]
                self._epoll.unregister(descriptor)
            for counts, key in ((self._of_user, peer.uid), (self._of_process, peer.pid)):
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]
        self._closing.append(peer)

    def _close(self) -> None:
        if self._closing:
            with impatient():
                for peer in self._closing:
                    peer.close()
            self._closing.clear()

    # ---- Messages ----

    def _receive(self, now_s: float) -> None:
        busy = {batch.uid for batch in self._batches.values()}
        for uid in [uid for uid in self._ready if uid not in busy]:
            if len(self._batches) >= MOST_BATCHES:
                return
            peers = [peer for peer in self._ready.pop(uid) if not peer.over]
            if not peers:
                continue
            if len(peers) > MOST_AT_ONCE:
                self._ready[uid] = peers[MOST_AT_ONCE:]
                del peers[MOST_AT_ONCE:]
            try:
                batch = Batch(uid, peers, now_s)
            except OSError:  # no process to be had
                self._ready[uid] = peers + self._ready.get(uid, [])
                return
            self._batches[batch.fileno()] = batch
            self._epoll.register(batch.fileno(), select.EPOLLIN)

    def _hear(self, batch: Batch) -> None:
        for peer, answer in batch.answers():
            if isinstance(answer, Refusal):
                self._refuse(peer, answer)
            elif peer.over:
                os.close(answer)
            else:
                self._number += 1
                peer.number, peer.memory = self._number, answer
                self._send(marshal.dumps(("new", peer.number, peer.pid, peer.started, peer.uid)), peer)
        if batch.over:
            self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        self._epoll.unregister(batch.fileno())
        del self._batches[batch.fileno()]
        for peer in batch.unanswered():
            self._refuse(peer, Refusal.HELD)
        batch.kill()
        if not batch.has_ended():
            self._stuck.append(batch)

    def _keep_house(self, now_s: float) -> None:
        for batch in [one for one in self._batches.values() if now_s - one.began_s > RECEIVING_S]:
            self._finish(batch)
        self._stuck = [batch for batch in self._stuck if not batch.has_ended()]
        if now_s - self._looked_s > TURN_S:
            self._looked_s = now_s
            for peer in set(self._peers.values()):
                if not peer.waits and now_s - peer.since_s > SILENT_S:
                    self._refuse(peer, Refusal.SILENT)
            self._over |= self._is_replaced()

    def _is_replaced(self) -> bool:
        """Another hostd's socket has its path: the jobs are to go there."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    # ---- To hostd ----

    def _tell(self, now_s: float) -> None:
        if self._refused and now_s - self._told_s > TOLD_S:
            self._told_s = now_s
            self._send(marshal.dumps(("refused", dict(self._refused), tuple(self._named))))
            self._refused.clear()
            self._named.clear()
        while self._outbox:
            message, peer = self._outbox[0]
            memory = [] if peer is None or peer.memory is None else [peer.memory]
            try:
                if peer is None or not peer.over:
                    socket.send_fds(self._channel, [message], memory)
            except BlockingIOError:
                break  # hostd is late
            except OSError:
                self._over = True
                return
            if peer is not None:
                peer.close_memory()
            self._outbox.popleft()
        self._epoll.modify(self._channel, select.EPOLLIN | (select.EPOLLOUT if self._outbox else 0))

    def _send(self, message: bytes, peer: Peer | None = None) -> None:
        self._outbox.append((message, peer))


def listening(path: Path) -> socket.socket:
    """At a path that every user can connect to; raises OSError."""
    for missing in [one for one in reversed(path.parents) if not one.exists()]:
        missing.mkdir()
        missing.chmod(0o755)
    if path.is_socket():  # a predecessor's: its jobs come here
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    made.bind(str(path))
    path.chmod(0o666)
    made.listen(MOST_CONNECTIONS)
    return made


@contextmanager
def impatient() -> Iterator[None]:
    """A connection is closed with what was not received from it. Of a TCP socket with SO_LINGER the last close takes
    as long as its owner has said, or until a signal comes."""
    signal.setitimer(signal.ITIMER_REAL, IMPATIENT_S, IMPATIENT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _cpu_s() -> float:
    of: Iterable[int] = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, of))


def main(arguments: list[str]) -> None:
    path, channel = Path(arguments[0]), socket.socket(fileno=int(arguments[1]))
    signal.signal(signal.SIGALRM, lambda *_: None)
    with suppress(OSError):
        os.nice(NICE)
    try:
        registrar = Registrar(path, channel)
    except OSError as error:
        channel.send(marshal.dumps(("failed", str(error))))
        return
    channel.send(marshal.dumps(("listens",)))
    registrar.run()


if __name__ == "__main__":
    main(sys.argv[1:])
