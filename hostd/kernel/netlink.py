"""Rtnetlink as bytes, for what happens every slot and for what must work in a process of ten megabytes.

    message    nlmsghdr (length, type, flags, sequence, port) + fixed part + attributes, each padded to 4 bytes
    attribute  length, type, value

The kernel works through all messages of one send before the call returns. It answers every message that failed, and
the last one in any case because that one asks for an acknowledgement: N changes cost one send and, when all is well,
one receive. pyroute2 takes 1.2 ms a class, and runs an event loop that the daemon's own loop does not allow.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
_SOL_NETLINK, _NETLINK_CAP_ACK = 270, 10
HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF  # without the flags for "nested" and "network byte order"

# Answers to as many failed messages fit the receive buffer, whose default holds about 200.
_BATCH = 128
_RECEIVE_BYTES = 1 << 16
_LAST_SEQUENCE = (1 << 32) - 1


class Message(NamedTuple):
    """One request: everything after the header, and the header's type and flags."""

    kind: int
    flags: int
    body: bytes


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(raw: bytes) -> dict[int, bytes]:
    """Attributes by type, values without padding; what is cut short is left out."""
    found, offset = {}, 0
    while offset + 4 <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, offset)
        if length < 4 or offset + length > len(raw):
            break
        found[kind & _TYPE_MASK] = raw[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def value_of(raw: bytes, wanted: int) -> bytes:
    """One attribute's value, empty where it is not there: several times a second of every class."""
    offset = 0
    while offset + 4 <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, offset)
        if length < 4 or offset + length > len(raw):
            break
        if kind & _TYPE_MASK == wanted:
            return raw[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return b""


class Netlink:
    """A socket, of rtnetlink by default, in the network namespace of the thread that made it."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)  # do not echo what failed
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, messages: Sequence[Message]) -> dict[int, OSError]:
        """Performs all of them in order; returns the failures by index."""
        failed: dict[int, OSError] = {}
        for start in range(0, len(messages), _BATCH):
            batch = messages[start : start + _BATCH]
            first = self._numbered(len(batch))
            wire = bytearray()
            for sequence, (kind, flags, body) in enumerate(batch, first):
                flags |= NLM_F_REQUEST | (NLM_F_ACK if sequence == self._sequence else 0)
                wire += HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0)
                wire += body
            self._socket.send(wire)
            for sequence, error in self._failures(first).items():
                failed[start + sequence - first] = error
        return failed

    def ask(self, message: Message) -> None:
        """Performs one; raises what the kernel answers."""
        for error in self.send([message]).values():
            raise error

    def dump(self, kind: int, body: bytes, most: float = inf) -> list[bytes]:
        """Every answer's fixed part and attributes; where there are more than `most`, about as many."""
        self._numbered(1)
        length = HEADER.size + len(body)
        self._socket.send(HEADER.pack(length, kind, NLM_F_REQUEST | NLM_F_DUMP, self._sequence, 0) + body)
        answers: list[bytes] = []
        while len(answers) < most:
            for answer, sequence, payload in self._receive():
                if sequence != self._sequence:
                    continue  # left over from an exchange that was broken off
                if answer == NLMSG_DONE:
                    return answers
                if answer == NLMSG_ERROR:
                    raise _failure(payload) or OSError(errno.EPROTO, os.strerror(errno.EPROTO))
                answers.append(payload)
        return answers

    def get(self, kind: int, body: bytes) -> bytes:
        """The one answer to a question about one thing; raises what the kernel answers instead."""
        self._numbered(1)
        self._socket.send(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST, self._sequence, 0) + body)
        while True:
            for answer, sequence, payload in self._receive():
                if sequence == self._sequence:
                    if answer == NLMSG_ERROR:
                        raise _failure(payload) or OSError(errno.EPROTO, os.strerror(errno.EPROTO))
                    return payload

    def _numbered(self, count: int) -> int:
        """So many messages come next: the first one's number. They have 32 bits, which a daemon uses up in weeks."""
        if self._sequence + count > _LAST_SEQUENCE:
            self._sequence = 0
        first, self._sequence = self._sequence + 1, self._sequence + count
        return first

    def _failures(self, first: int) -> dict[int, OSError]:
        """By sequence number, of the messages from `first` to the last one sent, which is always answered."""
        failed: dict[int, OSError] = {}
        while True:
            for answer, sequence, payload in self._receive():
                if answer != NLMSG_ERROR or not first <= sequence <= self._sequence:
                    continue
                if error := _failure(payload):
                    failed[sequence] = error
                if sequence == self._sequence:
                    return failed

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        # Not blocking: the answers lie ready when the send returns (a dump continues on each receive).
        raw = self._socket.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT)
        offset = 0
        while offset + HEADER.size <= len(raw):
            length, kind, _, sequence, _ = HEADER.unpack_from(raw, offset)
            yield kind, sequence, raw[offset + HEADER.size : offset + length]
            offset += (length + 3) & ~3


def _failure(payload: bytes) -> OSError | None:
    [negative] = struct.unpack_from("=i", payload)
    return OSError(-negative, os.strerror(-negative)) if negative else None


def means_absent(error: OSError) -> bool:
    """Whether the device, class or qdisc that a message named is no more."""
    return error.errno in (errno.ENOENT, errno.ENODEV)
