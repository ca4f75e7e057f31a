"""Which TCP connections of this network namespace have something to send, by the kernel's own list (sock_diag).

request   family, protocol, extensions, states, and an id, which is ignored in a dump
answer    family, state, timer, retransmissions, id: ports, addresses, interface, cookie; expires, queues, …
"""

import socket
import struct
from collections.abc import Container
from ipaddress import ip_address
from typing import NamedTuple

from hostd.kernel.netlink import Netlink

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_ESTABLISHED = 1 << 1
_ID_BYTES = 48
_REQUEST = struct.Struct(f"=BBBxI{_ID_BYTES}x")
MOST_LOOKED_AT = 4096  # of each family: somebody may have opened very many, and hostd has no time for that
_ANSWER = struct.Struct("=BBBB4x16s16sIQIII")  # …, source, destination, interface, cookie, expires, received, to send


class Sending(NamedTuple):
    """Connections with unacknowledged or unsent bytes."""

    connections: int = 0
    of_jobs: int = 0  # of these
    foreign_bytes: int = 0  # that the others have to send


def sending_connections(
    addresses: Container[str], apart: Container[int], of_jobs: Container[int] = frozenset()
) -> Sending:
    """Those from one of these addresses, but for some; both sets are of cookies. Of the first that the kernel names."""
    count = jobs = foreign_bytes = 0
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ESTABLISHED)
        with Netlink(_NETLINK_SOCK_DIAG) as netlink:  # one that was broken off answers nothing else
            for answer in netlink.dump(_SOCK_DIAG_BY_FAMILY, request, MOST_LOOKED_AT):
                kind, _, _, _, source, _, _, cookie, _, _, to_send = _ANSWER.unpack_from(answer)
                if to_send and cookie not in apart and _text(kind, source) in addresses:
                    count += 1
                    if cookie in of_jobs:
                        jobs += 1
                    else:
                        foreign_bytes += to_send
    return Sending(count, jobs, foreign_bytes)


def _text(family: int, packed: bytes) -> str:
    """As devices' addresses are written: IPv4 also where it is mapped into IPv6."""
    if family == socket.AF_INET:
        return str(ip_address(packed[:4]))
    address = ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
