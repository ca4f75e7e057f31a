"""The TCP connections of this network namespace that lead to other hosts, by the kernel's own list (sock_diag): whether
they have something to send, and what they sent so far.

request   family, protocol, extensions, states, and an id, which is ignored in a dump
answer    family, state, timer, retransmissions, id: ports, addresses, interface, cookie; expires, queues, user, inode;
          and as an attribute tcp_info
"""

import socket
import struct
from collections.abc import Container
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from hostd.kernel.netlink import Netlink, value_of

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_INET_DIAG_INFO = 2
_ESTABLISHED = 1 << 1
_ID_BYTES = 48
_REQUEST = struct.Struct(f"=BBBxI{_ID_BYTES}x")
MOST_LOOKED_AT = 4096  # of each family: somebody may have opened very many, and hostd has no time for that
_ANSWER = struct.Struct("=BBBB4x16s16sIQIII8x")  # …, source, destination, interface, cookie, expires, received, to send
_SENT_BYTES, _SENT_AT = struct.Struct("=Q"), 200  # tcpi_bytes_sent, since 4.19


class Connection(NamedTuple):
    sends: bool  # it has unacknowledged or unsent bytes
    sent_bytes: int  # ever, also those that were sent again; 0 where the kernel does not say


def connections(addresses: Container[str], local: Container[str]) -> dict[int, Connection]:
    """Those from one of these addresses to none that is local, by cookie; of the first that the kernel names."""
    found: dict[int, Connection] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _ESTABLISHED)
        with Netlink(_NETLINK_SOCK_DIAG) as netlink:  # one that was broken off answers nothing else
            for answer in netlink.dump(_SOCK_DIAG_BY_FAMILY, request, MOST_LOOKED_AT):
                kind, _, _, _, source, target, _, cookie, _, _, to_send = _ANSWER.unpack_from(answer)
                if _text(kind, source) in addresses and _text(kind, target) not in local:
                    info = value_of(answer[_ANSWER.size :], _INET_DIAG_INFO)
                    has_it = len(info) >= _SENT_AT + _SENT_BYTES.size
                    found[cookie] = Connection(to_send > 0, _SENT_BYTES.unpack_from(info, _SENT_AT)[0] if has_it else 0)
    return found


@lru_cache(maxsize=2 * MOST_LOOKED_AT)
def _text(family: int, packed: bytes) -> str:
    """As devices' addresses are written: IPv4 also where it is mapped into IPv6."""
    if family == socket.AF_INET:
        return str(ip_address(packed[:4]))
    address = ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
