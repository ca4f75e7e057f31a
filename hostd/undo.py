"""How to take back a change to the kernel, written down before it is made.

    netlink   messages, sent in order up to the first that fails: the first one names what must still be ours
    socket    the value an option of somebody's socket had
    sysctl    the text a file had

Law: taking back is idempotent, and what has gone in the meantime (a device, a process, a socket) counts as taken
back. So the same entries serve the daemon at its end, the guardian after a SIGKILL and an operator with `release`,
even when two of them meet. Only the standard library: the guardian is to stay small.
"""

import errno
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostd.borrow import Gone, borrowed
from hostd.netlink import Message, Netlink

SYSCTL_ROOT = Path("/proc/sys/net")


@dataclass(frozen=True, slots=True)
class NetlinkUndo:
    messages: tuple[tuple[int, int, str], ...]  # type, flags, body in hex
    pause_ms: int = 0  # before: what an earlier entry let go needs a moment to leave the queue

    @classmethod
    def of(cls, *messages: Message, pause_ms: int = 0) -> "NetlinkUndo":
        return cls(tuple((kind, flags, body.hex()) for kind, flags, body in messages), pause_ms)

    def perform(self) -> None:
        time.sleep(self.pause_ms / 1e3)
        try:
            with Netlink() as netlink:
                for kind, flags, body in self.messages:
                    netlink.ask(Message(kind, flags, bytes.fromhex(body)))
        except OSError as error:
            # EINVAL: a qdisc of another handle is there now. ENOENT, ENODEV: qdisc, class or device have gone.
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENODEV):
                raise


@dataclass(frozen=True, slots=True)
class SocketUndo:
    pid: int
    fd: int
    cookie: int
    level: int
    option: int
    value: str  # hex

    def perform(self) -> None:
        try:
            with borrowed(self.pid, self.fd, self.cookie) as theirs:
                theirs.setsockopt(self.level, self.option, bytes.fromhex(self.value))
        except Gone:
            pass


@dataclass(frozen=True, slots=True)
class SysctlUndo:
    path: str
    text: str

    def perform(self) -> None:
        path = Path(self.path).resolve()
        if not path.is_relative_to(SYSCTL_ROOT):
            raise PermissionError(errno.EPERM, f"no network sysctl: {path}")
        path.write_text(self.text)


Undo = NetlinkUndo | SocketUndo | SysctlUndo
_KINDS: dict[str, type[Undo]] = {"netlink": NetlinkUndo, "socket": SocketUndo, "sysctl": SysctlUndo}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def socket_undo(pid: int, fd: int, cookie: int, theirs: socket.socket, level: int, option: int) -> SocketUndo:
    """The option as it is now; 16 bytes hold the longest one we touch, a congestion control's name."""
    return SocketUndo(pid, fd, cookie, level, option, theirs.getsockopt(level, option, 16).hex())


def as_json(undo: Undo) -> dict[str, Any]:
    return {"undo": _NAMES[type(undo)], **asdict(undo)}


def from_json(fields: dict[str, Any]) -> Undo:
    """Raises KeyError, TypeError or ValueError on anything as_json would not have written."""
    values = dict(fields)
    kind = _KINDS[values.pop("undo")]
    if kind is NetlinkUndo:
        values["messages"] = tuple((int(type_), int(flags), str(body)) for type_, flags, body in values["messages"])
    return kind(**values)
