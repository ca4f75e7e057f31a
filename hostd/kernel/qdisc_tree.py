"""The queueing of a device as it was found, and the messages that bring it back.

    default     every qdisc has handle 0: the kernel put it there, and puts it there again when ours is deleted
    foreign     an operator or another program set it: refused without takeover; with it, qdiscs, classes and filters
                are recorded

A dump's answer is nearly the request that makes the same again: interface, handle, parent, kind and options are all
there. So a tree is restored by sending its own dump back, parents first; counters start at 0, and packets queued at
that moment are lost. Where a dump says more than can be sent back (hash tables, chains, blocks, size tables) the tree
is `unrepeatable`, and is not taken over.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hostd.kernel.htb_class import RTM_GETTCLASS, RTM_NEWTCLASS, TCA_KIND, TCA_OPTIONS, TCMSG
from hostd.kernel.netlink import NLM_F_CREATE, NLM_F_EXCL, Message, Netlink, attribute, attributes

RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTFILTER, RTM_GETTFILTER = 44, 46
TC_H_ROOT, TC_H_INGRESS = 0xFFFF_FFFF, 0xFFFF_FFF1
_MAJOR = 0xFFFF_0000
_HTB_INIT = 2
_HTB_GLOB = struct.Struct("=IIIII")  # version, rate2quantum, defcls, debug, direct_pkts
_HTB_VERSION = 3
_U32_LINK, _U32_DIVISOR, _U32_PCNT, _U32_FLAGS = 3, 4, 9, 11
_CHOSEN_FLAGS = 0x3  # skip hardware, skip software
_U32_RULE = 0xF_FFFF  # bits of a handle that a hash table has not
_U32_OWN_TABLE = 0x8000_0000  # a bit of the handles of those that come with the first rule
_TCA_STAB, _TCA_CHAIN, _TCA_INGRESS_BLOCK, _TCA_EGRESS_BLOCK = 8, 11, 13, 14


@dataclass(frozen=True, slots=True)
class Node:
    """One qdisc, class or filter, without its counters."""

    kind: str
    handle: int
    parent: int
    info: int  # a filter's priority and protocol; 0 otherwise
    options: bytes

    def message(self, message_type: int, ifindex: int) -> Message:
        body = TCMSG.pack(0, ifindex, self.handle, self.parent, self.info)
        body += attribute(TCA_KIND, self.kind.encode() + b"\0")
        if self.options:
            body += attribute(TCA_OPTIONS, self.options)
        return Message(message_type, NLM_F_CREATE | NLM_F_EXCL, body)


@dataclass(frozen=True, slots=True)
class QdiscTree:
    ifindex: int
    qdiscs: tuple[Node, ...]
    classes: tuple[Node, ...]
    filters: tuple[Node, ...]
    unrepeatable: str = ""  # what of it cannot be made again

    @property
    def is_default(self) -> bool:
        return not any(node.handle for node in self.qdiscs)

    @property
    def root(self) -> Node | None:
        return next((node for node in self.qdiscs if node.parent == TC_H_ROOT), None)

    def messages(self) -> list[Message]:
        """What makes this tree again where only a default is; nothing for a default."""
        if self.is_default:
            return []
        made = [(RTM_NEWQDISC, node) for node in self.qdiscs if node.handle]
        made += [(RTM_NEWTCLASS, node) for node in self.classes]
        in_order = _parents_first(made)
        in_order += [(RTM_NEWTFILTER, node) for node in self.filters]
        return [node.message(message_type, self.ifindex) for message_type, node in in_order]


def read_tree(netlink: Netlink, ifindex: int) -> QdiscTree:
    """The egress side of a device; ingress and clsact are none of our business."""

    unrepeatable: list[str] = []

    def dump(message_type: int, parent: int = 0) -> list[Node]:
        found = _nodes(netlink.dump(message_type, TCMSG.pack(0, ifindex, 0, parent, 0)), ifindex)
        unrepeatable.extend(why for _, why in found if why)
        return [node for node, _ in found]

    # For qdiscs and classes `info` is a reference count and a leaf's handle: not for sending back.
    qdiscs = [replace(node, info=0) for node in dump(RTM_GETQDISC) if node.parent != TC_H_INGRESS]
    # Classes without options are of their qdisc's own making (mq's).
    classes = [replace(node, info=0) for node in dump(RTM_GETTCLASS) if node.options]
    handles = sorted({node.handle for node in (*qdiscs, *classes) if node.handle})
    # A filter without options is the head of its list, and u32's first hash table comes with the first rule.
    filters = [
        node
        for handle in handles
        for node in dump(RTM_GETTFILTER, handle)
        if node.options and (node.kind != "u32" or node.handle & _U32_RULE)
    ]
    return QdiscTree(ifindex, tuple(qdiscs), tuple(classes), tuple(filters), next(iter(unrepeatable), ""))


def delete_root(ifindex: int, handle: int) -> Message:
    """Fails, and changes nothing, where the root has another handle."""
    return Message(RTM_DELQDISC, 0, TCMSG.pack(0, ifindex, handle, TC_H_ROOT, 0))


def _nodes(answers: Iterable[bytes], ifindex: int) -> list[tuple[Node, str]]:
    """Each with what would be lost of it."""
    nodes = []
    for answer in answers:
        _, found_on, handle, parent, info = TCMSG.unpack_from(answer)
        if found_on != ifindex:
            continue  # the kernel dumps qdiscs of all devices
        known = attributes(answer[TCMSG.size :])
        kind = known[TCA_KIND].rstrip(b"\0").decode()
        options = known.get(TCA_OPTIONS, b"")
        node = Node(kind, handle, parent, info, _repeatable(kind, options))
        nodes.append((node, _unrepeatable(node, known, attributes(options) if kind == "u32" else {})))
    return nodes


def _unrepeatable(node: Node, known: Mapping[int, bytes], u32: Mapping[int, bytes]) -> str:
    if node.parent == TC_H_INGRESS:
        return ""
    if _TCA_STAB in known:
        return f"the size table of {node.kind} {node.handle >> 16:x}:"
    if _TCA_INGRESS_BLOCK in known or _TCA_EGRESS_BLOCK in known:
        return f"the shared filters of {node.kind} {node.handle >> 16:x}:"
    if any(known.get(_TCA_CHAIN, b"")):
        return f"a filter of {node.parent >> 16:x}: in a chain of its own"
    [divisor] = struct.unpack("=I", u32.get(_U32_DIVISOR, bytes(4)))
    if _U32_LINK in u32 or divisor > 1 or (u32 and not node.handle & _U32_OWN_TABLE):
        return f"the hash tables of the filters of {node.parent >> 16:x}:"
    return ""


def _repeatable(kind: str, options: bytes) -> bytes:
    """Options as they are accepted again: dumps mix in counters, and values that only the kernel may set."""
    parsed = attributes(options) if kind in ("htb", "u32") else {}
    if kind == "htb" and _HTB_INIT in parsed:
        _, rate2quantum, defcls, debug, _ = _HTB_GLOB.unpack(parsed[_HTB_INIT])
        parsed[_HTB_INIT] = _HTB_GLOB.pack(_HTB_VERSION, rate2quantum, defcls, debug, 0)
    if kind == "u32":
        parsed.pop(_U32_PCNT, None)
        [flags] = struct.unpack("=I", parsed.get(_U32_FLAGS, bytes(4)))
        parsed[_U32_FLAGS] = struct.pack("=I", flags & _CHOSEN_FLAGS)
    return b"".join(attribute(key, value) for key, value in parsed.items()) if parsed else options


def _parents_first(made: Sequence[tuple[int, Node]]) -> list[tuple[int, Node]]:
    waiting, ordered = list(made), list[tuple[int, Node]]()

    missing = {node.handle for _, node in made}
    while waiting:
        # A parent that is in no dump is a class of its qdisc's own making: there as soon as the qdisc is.
        ready = [item for item in waiting if not {item[1].parent, item[1].parent & _MAJOR} & missing]
        if not ready:
            return ordered + waiting  # let the kernel say what is wrong
        ordered += ready
        missing -= {node.handle for _, node in ready}
        waiting = [item for item in waiting if item not in ready]
    return ordered
