"""The messages of one user's connections, on their way through a receiver."""

import marshal
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from hostd.registration.peer import Peer
from hostd.registration.protocol import Refusal
from hostd.registration.receiver import receive_all
from hostd.workers.child import ForkedChild

MOST_AT_ONCE = 64  # of a user
_ONE_DESCRIPTOR = socket.CMSG_LEN(4)


class Batch:
    def __init__(self, uid: int, peers: Sequence[Peer], now_s: float) -> None:
        """Forks; raises OSError."""
        self.uid, self.began_s = uid, now_s
        self._peers: list[Peer | None] = [*peers]
        self.over = False  # it says no more
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        connections = [peer.connection.fileno() for peer in peers]
        try:
            with theirs:
                channel = theirs.fileno()
                self._child = ForkedChild(lambda: receive_all(connections, channel), [*connections, channel])
        except OSError:
            self._channel.close()
            raise

    def fileno(self) -> int:
        return self._channel.fileno()

    def answers(self) -> Iterator[tuple[Peer, int | Refusal]]:
        """That have come: why not, or a descriptor of the memory."""
        while not self.over:
            try:
                text, ancillary, _, _ = self._channel.recvmsg(1024, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                text = b""
            if not text:
                self.over = True
                return
            place, refusal = marshal.loads(text)
            peer, self._peers[place] = self._peers[place], None
            memory = [struct.unpack("i", data[:4])[0] for _, _, data in ancillary]
            if peer is not None:
                yield peer, memory[0] if memory else Refusal(refusal)

    def unanswered(self) -> list[Peer]:
        self.over = True
        return [peer for peer in self._peers if peer is not None]

    def kill(self) -> None:
        self._channel.close()
        self._child.kill()

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def age_s(self) -> float:
        return time.monotonic() - self.began_s
