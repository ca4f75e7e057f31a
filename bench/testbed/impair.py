"""Random loss and congestion marks, once for each packet that reaches a host, whatever its path.

Packets are lost or marked where they enter the destination (nftables, prerouting): behind the bottleneck, before TCP.
Only packets of the data network: the control network and a host's own loopback are spared. A bundle of packets would be
lost as a whole, so an impaired network sends packets one by one, at a price in CPU time.

Marks are drawn at random as well: a queue that marks by its length (RED, CoDel) is not in every kernel. They are put
on ECN-capable packets only, and hosts then negotiate ECN.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta, Regs
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from bench.testbed.namespace import Namespace

_IPV4 = 2
_TABLE, _CHAIN = "paceline-testbed", "arrivals"
_ONE_IN = 1_000_000  # resolution of a probability
_REGISTER = Regs.NFT_REG_1
_NETWORK_HEADER = 1
_CHECKSUM_OFFSET = 10
_DROP, _ACCEPT = 0, 1
_NUMBER_RANDOM, _HOST_TO_NETWORK, _INTERNET_CHECKSUM = 1, 1, 1


@dataclass(frozen=True, slots=True)
class Impairment:
    """How a network falls short of an ideal one."""

    loss: float = 0.0  # probability that a packet is lost
    marks: float = 0.0  # probability that an ECN-capable packet is marked
    single_packets: bool = False  # one by one also without loss, to compare with

    def __post_init__(self) -> None:
        for name, probability in (("loss", self.loss), ("marks", self.marks)):
            if not 0 <= probability < 1:
                raise ValueError(f"{name} is {probability}, expected a probability from 0 to below 1")

    @property
    def any(self) -> bool:
        return bool(self.loss or self.marks)

    @property
    def one_by_one(self) -> bool:
        """Whether packets are sent so, and not in bundles."""
        return self.any or self.single_packets


UNIMPAIRED = Impairment()


def impair_arrivals(host: Namespace, index: int, impairment: Impairment) -> None:
    """Packets that come in through the interface are lost or marked at random."""
    if not impairment.any:
        return
    with host.enter():
        nft = NFTables(nfgen_family=_IPV4)
    try:
        nft.table("add", name=_TABLE)
        nft.chain("add", table=_TABLE, name=_CHAIN, hook="prerouting", type="filter", policy=_ACCEPT)
        for probability, effect in ((impairment.loss, verdict(_DROP)), (impairment.marks, _mark())):
            if probability:
                rule = (_came_through(index), _drawn(probability), effect)
                nft.rule("add", table=_TABLE, chain=_CHAIN, expressions=rule)
    finally:
        nft.close()


def heal_arrivals(host: Namespace) -> None:
    """No packet is lost or marked any more."""
    with host.enter():
        nft = NFTables(nfgen_family=_IPV4)
    try:
        nft.table("del", name=_TABLE)
    finally:
        nft.close()


def _came_through(index: int) -> list[Any]:
    meta = genex("meta", {"key": Meta.NFT_META_IIF, "dreg": _REGISTER})
    return [meta, _compare(Cmp.NFT_CMP_EQ, struct.pack("=I", index))]


def _drawn(probability: float) -> list[Any]:
    draw = {"attrs": [("NFTA_NG_DREG", _REGISTER), ("NFTA_NG_MODULUS", _ONE_IN), ("NFTA_NG_TYPE", _NUMBER_RANDOM)]}
    number = {"attrs": [("NFTA_EXPR_NAME", "numgen"), ("NFTA_EXPR_DATA", draw)]}
    # Comparisons go byte by byte from the left, so the number must be in network order.
    order = {"sreg": _REGISTER, "dreg": _REGISTER, "op": _HOST_TO_NETWORK, "len": 4, "size": 4}
    threshold = struct.pack("!I", round(probability * _ONE_IN))
    return [number, genex("byteorder", order), _compare(Cmp.NFT_CMP_LT, threshold)]


def _mark() -> list[Any]:
    """The lowest bits of the header's first two bytes are the ECN field: 00 not capable, 11 congestion."""
    field = {"base": _NETWORK_HEADER, "offset": 0, "len": 2}
    load = genex("payload", {"dreg": _REGISTER, **field})
    checksum = {"csum_type": _INTERNET_CHECKSUM, "csum_offset": _CHECKSUM_OFFSET}
    store = genex("payload", {"sreg": _REGISTER, **field, **checksum})
    capable = [load, _bits(b"\x00\x03", b"\x00\x00"), _compare(Cmp.NFT_CMP_NEQ, b"\x00\x00")]
    return [*capable, load, _bits(b"\xff\xfc", b"\x00\x03"), store]


def _bits(mask: bytes, flip: bytes) -> Any:
    sides = {"sreg": _REGISTER, "dreg": _REGISTER, "len": len(mask)}
    return genex("bitwise", {**sides, "mask": _value(mask), "xor": _value(flip)})


def _compare(operator: Cmp, value: bytes) -> Any:
    return genex("cmp", {"sreg": _REGISTER, "op": operator, "data": _value(value)})


def _value(value: bytes) -> dict[str, Sequence[tuple[str, bytes]]]:
    return {"attrs": [("NFTA_DATA_VALUE", value)]}
