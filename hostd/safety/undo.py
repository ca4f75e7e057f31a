"""How to take back a change to the kernel, written down before it is made.

    netlink   messages that change in place what hostd made
    qdisc     the tree that was there before hostd's root
    socket    the value an option of a job's socket had: the last to be taken back, because it may have to wait
    sysctl    the text a file had
    routes    connections look up their routes anew

Law: taking back is idempotent, and what has gone in the meantime (a device, a process, a socket) counts as taken
back. So the same entries serve the daemon at its end, the guardian after a SIGKILL and an operator with `release`,
even when two of them meet, or one is killed meanwhile. Only the standard library: the guardian is to stay small.
"""

import errno
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_origin

from hostd.kernel.calls import Call, Reach, get_option
from hostd.kernel.netlink import Message, Netlink, means_absent
from hostd.kernel.qdisc_tree import delete_root, read_tree

SYSCTL_ROOT = Path("/proc/sys/net")
_ROUTE_FLUSH = SYSCTL_ROOT / "ipv4/route/flush"
MOST_PID = 1 << 22
OPTION_BYTES = 16  # hold the longest that is changed, a congestion control's name
Recorded = tuple[int, int, str]  # a message: type, flags, body in hex

# Between look and first message: the root is another now, or there is one, or the device has gone.
_CHANGED_MEANWHILE = (errno.EINVAL, errno.ENOENT, errno.EEXIST, errno.ENODEV)


@dataclass(frozen=True, slots=True)
class NetlinkUndo:
    messages: tuple[Recorded, ...]

    @classmethod
    def of(cls, *messages: Message) -> "NetlinkUndo":
        return cls(_recorded(messages))

    def perform(self) -> None:
        with Netlink() as netlink:
            for error in netlink.send(_messages(self.messages)).values():
                if not means_absent(error):
                    raise error


@dataclass(frozen=True, slots=True)
class QdiscUndo:
    """Deletes hostd's root and makes the tree again that was there before.

    Both in one send, which a kill cannot break off (a tree of more than 128 parts takes several). A device with the
    kernel's default root has lost its tree all the same, and gets it back. Any other root stays: it is the tree itself,
    or an operator or another program set it later.
    """

    ifindex: int
    handle: int  # of hostd's root
    tree: tuple[Recorded, ...]
    pause_ms: int = 0  # before: what an earlier entry let go needs a moment to leave the queue

    @classmethod
    def of(cls, ifindex: int, handle: int, tree: Iterable[Message], pause_ms: int = 0) -> "QdiscUndo":
        return cls(ifindex, handle, _recorded(tree), pause_ms)

    def perform(self) -> None:
        with Netlink() as netlink:
            root = read_tree(netlink, self.ifindex).root
            messages = _messages(self.tree)
            if root is not None and root.handle == self.handle:
                time.sleep(self.pause_ms / 1e3)
                messages = [delete_root(self.ifindex, self.handle), *messages]
            elif root is not None and root.handle:
                return
            failed = netlink.send(messages)
        if 0 in failed and failed[0].errno in _CHANGED_MEANWHILE:
            return
        for error in failed.values():
            if error.errno != errno.ENODEV:
                raise error


@dataclass(frozen=True, slots=True)
class SocketUndo:
    pid: int
    fd: int
    cookie: int
    level: int
    option: int
    value: str  # hex

    def call(self) -> Call:
        """That performs it; it is made by a process that may be kept waiting (hostd/kernel/calls.py)."""
        if not 0 < self.pid <= MOST_PID:
            raise ValueError(f"no process has the pid {self.pid}")
        return ("set", self.pid, self.fd, self.cookie, self.level, self.option, bytes.fromhex(self.value))


@dataclass(frozen=True, slots=True)
class SysctlUndo:
    path: str
    text: str

    def perform(self) -> None:
        path = Path(self.path).resolve()
        if not path.is_relative_to(SYSCTL_ROOT):
            raise PermissionError(errno.EPERM, f"no network sysctl: {path}")
        if path.read_text() != self.text:  # it may be read-only, and was never changed then
            path.write_text(self.text)


@dataclass(frozen=True, slots=True)
class RouteFlush:
    """A connection takes over a device's bundle size with its route: looked up anew, it takes the new one.

    Best effort, there and back: where /proc/sys is read-only, bundles of connections that exist already are cut up in
    software until their routes expire. (IPv6 routes have no such switch.)
    """

    def perform(self) -> None:
        with suppress(OSError):
            _ROUTE_FLUSH.write_text("1")


Undo = NetlinkUndo | QdiscUndo | SocketUndo | SysctlUndo | RouteFlush
_KINDS: dict[str, type[Undo]] = {
    "netlink": NetlinkUndo,
    "qdisc": QdiscUndo,
    "socket": SocketUndo,
    "sysctl": SysctlUndo,
    "routes": RouteFlush,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def socket_undo(one: Reach, level: int, option: int) -> SocketUndo:
    """The option as it is now; raises SocketGone or OSError."""
    return SocketUndo(one.pid, one.fd, one.cookie, level, option, get_option(one, level, option, OPTION_BYTES).hex())


def as_json(undo: Undo) -> dict[str, Any]:
    return {"undo": _NAMES[type(undo)], **asdict(undo)}


def from_json(entry: dict[str, Any]) -> Undo:
    """Raises KeyError, TypeError or ValueError on anything as_json would not have written."""
    values = dict(entry)
    kind = _KINDS[values.pop("undo")]
    for name in {"messages", "tree"} & values.keys():
        values[name] = tuple((int(type_), int(flags), str(body)) for type_, flags, body in values[name])
        _messages(values[name])
    undo = kind(**values)
    for one in fields(undo):
        expected = get_origin(one.type) or one.type
        assert isinstance(expected, type)
        if not isinstance(value := getattr(undo, one.name), expected):
            raise TypeError(f"{one.name} is {value!r}")
    if isinstance(undo, SocketUndo):
        bytes.fromhex(undo.value)
    return undo


def _recorded(messages: Iterable[Message]) -> tuple[Recorded, ...]:
    return tuple((kind, flags, body.hex()) for kind, flags, body in messages)


def _messages(found: Iterable[Recorded]) -> list[Message]:
    return [Message(kind, flags, bytes.fromhex(body)) for kind, flags, body in found]
