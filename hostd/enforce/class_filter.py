"""Packets that are in no class by their socket's priority: those of a job's sockets, and those of others.

HTB asks SO_PRIORITY first. A job may set that to anything from 0 to 6, and so does IP_TOS; the packet is then in no
class, and passes by all. For packets in no class HTB asks the filters of its root: here one, a classic BPF program
(cls_bpf), which no job can change. It compares a packet's addresses and ports with those of the sockets that were seen
outside:

    SMALL_BYTES or less     ──▶ 0: as if there were no filter. Acknowledgements must not wait for data
    those of such a socket  ──▶ its class
    otherwise               ──▶ others' class while there is one (own_link.py), else 0

Law: the program is as long as there are such sockets, MOST_FILTERED at most, and no packet that has a class runs it.
"""

import socket
import struct
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from hostd.kernel.htb_class import TCA_KIND, TCA_OPTIONS, TCMSG
from hostd.kernel.netlink import NLM_F_CREATE, Message, attribute
from hostd.kernel.qdisc_tree import RTM_NEWTFILTER
from hostd.kernel.sockets import DataSocket

MOST_FILTERED = 128
SMALL_BYTES = 128  # an acknowledgement over IPv6, with all options, has 114
_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_PRIORITY = 1 << 16
_HANDLE = 1
_TCA_BPF_OPS_LEN, _TCA_BPF_OPS = 4, 5

# Classic BPF. Offsets from the IP header, whatever is before it.
_NET_OFF, _PROTOCOL = -0x100000, -0x1000
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_INDEXED = 0x20, 0x28, 0x30, 0x48
_LOAD_HEADER_LENGTH, _SET_INDEX = 0xB1, 0x01
_JUMP, _JUMP_EQUAL, _JUMP_GREATER, _RETURN = 0x05, 0x15, 0x25, 0x06
_LOAD_LENGTH = 0x80
_INSTRUCTION = struct.Struct("=HBBI")

Instruction = tuple[int, int, int, int]


def filter_message(ifindex: int, root: int, classes: Mapping[DataSocket, int], others: int) -> Message:
    """Makes the filter, or replaces it: these sockets' packets belong to these classes, those of others to `others`;
    0: to none."""
    program = _program(classes, others)
    operations = b"".join(_INSTRUCTION.pack(code, yes, no, k & 0xFFFF_FFFF) for code, yes, no, k in program)
    options = attribute(_TCA_BPF_OPS_LEN, struct.pack("=H", len(program))) + attribute(_TCA_BPF_OPS, operations)
    body = TCMSG.pack(0, ifindex, _HANDLE, root, _PRIORITY | socket.htons(_ETH_P_ALL))
    body += attribute(TCA_KIND, b"bpf\0") + attribute(TCA_OPTIONS, options)
    return Message(RTM_NEWTFILTER, NLM_F_CREATE, body)


def _program(classes: Mapping[DataSocket, int], others: int) -> list[Instruction]:
    v4 = [(one, minor) for one, minor in classes.items() if ip_address(one.remote).version == 4]
    v6 = [(one, minor) for one, minor in classes.items() if ip_address(one.remote).version == 6]
    block4 = [
        (_LOAD_BYTE, 0, 0, _NET_OFF + 9),
        (_JUMP_EQUAL, 1, 0, socket.IPPROTO_TCP),
        (_RETURN, 0, 0, others),
        (_LOAD_HEADER_LENGTH, 0, 0, _NET_OFF),
        *_matches(v4, (12, 16)),
        (_RETURN, 0, 0, others),
    ]
    block6 = [
        (_LOAD_BYTE, 0, 0, _NET_OFF + 6),
        (_JUMP_EQUAL, 1, 0, socket.IPPROTO_TCP),
        (_RETURN, 0, 0, others),
        (_SET_INDEX, 0, 0, 40),
        *_matches(v6, (8, 24)),
        (_RETURN, 0, 0, others),
    ]
    return [
        (_LOAD_LENGTH, 0, 0, 0),
        (_JUMP_GREATER, 1, 0, SMALL_BYTES),
        (_RETURN, 0, 0, 0),
        (_LOAD_HALF, 0, 0, _PROTOCOL),
        (_JUMP_EQUAL, 0, 1, _ETH_P_IP),
        (_JUMP, 0, 0, 3),
        (_JUMP_EQUAL, 0, 1, _ETH_P_IPV6),
        (_JUMP, 0, 0, 1 + len(block4)),
        (_RETURN, 0, 0, 0),
        *block4,
        *block6,
    ]


def _matches(sockets: Iterable[tuple[DataSocket, int]], offsets: tuple[int, int]) -> list[Instruction]:
    """One after the other; X is where the TCP header begins."""
    made: list[Instruction] = []
    for one, handle in sockets:
        compared = [
            *_words(one.local, offsets[0]),
            *_words(one.remote, offsets[1]),
            (_LOAD_HALF_INDEXED, 0, one.local_port),
            (_LOAD_HALF_INDEXED, 2, one.remote_port),
        ]
        for number, (load, offset, value) in enumerate(compared):
            beyond = 2 * (len(compared) - number - 1) + 1  # to the next socket
            made += [(load, 0, 0, _NET_OFF + offset), (_JUMP_EQUAL, 0, beyond, value)]
        made.append((_RETURN, 0, 0, handle))
    return made


def _words(address: str, offset: int) -> list[tuple[int, int, int]]:
    packed = ip_address(address).packed
    return [(_LOAD_WORD, offset + at, int.from_bytes(packed[at : at + 4], "big")) for at in range(0, len(packed), 4)]
