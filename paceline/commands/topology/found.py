"""What a source says of a cluster: its hosts' NICs, and which switch is below which."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from paceline.commands.arguments import CommandError

MAX_BYTES = 50_000_000
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(g|m|t)?(?:b|bit|bits|bps|bit/s|be|b/s|ig)?(?:/s|ps)?", re.IGNORECASE)
_FACTOR = {"": 1.0, "g": 1.0, "m": 1e-3, "t": 1e3}


@dataclass(slots=True)
class FoundNic:
    switch: str
    gbps: float
    addresses: list[str] = field(default_factory=list)
    name: str | None = None


@dataclass(slots=True)
class FoundSwitch:
    parents: list[str] = field(default_factory=list)
    gbps: list[float] = field(default_factory=list)  # to each parent, or none: not said


@dataclass(slots=True)
class FoundCluster:
    """Racks need not be among the switches: each that a NIC leads to is one."""

    hosts: dict[str, list[FoundNic]] = field(default_factory=dict)
    switches: dict[str, FoundSwitch] = field(default_factory=dict)

    def add_nic(self, host: str, nic: FoundNic) -> None:
        """A second one to the same switch makes a bond; one to another switch is a rail."""
        nics = self.hosts.setdefault(host, [])
        for other in nics:
            if other.switch == nic.switch:
                other.gbps += nic.gbps
                other.addresses += [address for address in nic.addresses if address not in other.addresses]
                return
        if nics and nic.name is None:
            nic.name = f"nic{len(nics)}"
        nics.append(nic)


def gbps_of(text: str) -> float:
    """Of 25, 25G, 25Gbps, 100GbE or 1000M."""
    found = _RATE.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise ValueError(f"found {text[:40]!r}, expected a rate such as 25 or 25G")
    return float(f"{float(found[1]) * _FACTOR[(found[2] or '').lower()]:.9g}")


def need_gbps(gbps: float | None, source: str) -> float:
    if gbps is None:
        raise CommandError(f"{source}: it does not say how fast hosts' NICs are: --host-gbps N")
    return gbps


def read_text(path: Path) -> str:
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(MAX_BYTES).decode()
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path}: found no UTF-8 text") from None
