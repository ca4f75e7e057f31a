"""The network devices of this host, as pyroute2 reports them. Law: asked on change, never per slot."""

from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

_LOOPBACK = 0x8  # IFF_LOOPBACK
_BPS_PER_MBPS = 1e6


@dataclass(frozen=True, slots=True)
class Device:
    ifindex: int
    name: str
    addresses: frozenset[str]
    gso_max_bytes: int  # the largest bundle of segments TCP hands to it; by protocol in new kernels
    gso_ipv4_max_bytes: int
    mtu_bytes: int
    queues: int
    loopback: bool


def read_devices(route: IPRoute) -> dict[str, Device]:
    """Every device by name."""
    addresses: dict[int, set[str]] = {}
    for message in route.get_addr():
        text = message.get("IFA_LOCAL") or message.get("IFA_ADDRESS")
        addresses.setdefault(message["index"], set()).add(str(text))
    devices = {}
    for message in route.get_links():
        ifindex, name = message["index"], message.get("ifname")
        gso_max_bytes = message.get("gso_max_size") or 65536
        devices[name] = Device(
            ifindex,
            name,
            frozenset(addresses.get(ifindex, ())),
            gso_max_bytes,
            message.get("gso_ipv4_max_size") or gso_max_bytes,
            message.get("mtu") or 1500,
            message.get("num_tx_queues") or 1,
            bool(message["flags"] & _LOOPBACK),
        )
    return devices


def link_speed_bps(name: str) -> float | None:
    """What the driver says; None when it does not know, as most virtual devices."""
    try:
        speed_mbps = int(Path(f"/sys/class/net/{name}/speed").read_text())
    except (OSError, ValueError):
        return None
    return speed_mbps * _BPS_PER_MBPS if speed_mbps > 0 else None
