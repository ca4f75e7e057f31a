"""The network devices of this host. Law: asked on change, never per slot, but for what a device has sent.

Not through pyroute2: its calls run an event loop of their own, which the daemon's loop does not allow.
"""

import socket
import struct
from array import array
from dataclasses import dataclass
from fcntl import ioctl
from ipaddress import ip_address

from hostd.kernel.netlink import Netlink, attributes

_RTM_GETLINK, _RTM_GETADDR = 18, 22
IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, change
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_IFNAME, _NUM_TX_QUEUES, IFLA_GSO_MAX_SIZE, IFLA_GSO_IPV4_MAX_SIZE = 3, 31, 41, 63
_IFA_ADDRESS, _IFA_LOCAL = 1, 2  # point-to-point links have the peer's under ADDRESS
_IFF_LOOPBACK = 0x8
_BPS_PER_MBPS = 1e6
_SIOCETHTOOL, _ETHTOOL_GLINKSETTINGS = 0x8946, 0x4C
_LINK_SETTINGS_BYTES = 48 + 3 * 4 * 127  # and three masks of at most as many words
_MASK_WORDS = 15  # where their number is
_SPEED_UNKNOWN = 0xFFFF_FFFF
_RTM_GETSTATS, _STATS_LINK_64 = 94, 1
_IF_STATS = struct.Struct("=B3xII")  # family, index, which counts
_FOUR_COUNTS = struct.Struct("=QQQQ")  # packets received and sent, bytes received and sent


@dataclass(frozen=True, slots=True)
class Device:
    ifindex: int
    name: str
    addresses: frozenset[str]
    gso_max_bytes: int  # the largest bundle of segments TCP hands to it
    gso_ipv4_max_bytes: int  # the same for IPv4 alone, in kernels that tell them apart
    queues: int
    loopback: bool


def read_devices(netlink: Netlink) -> dict[str, Device]:
    """Every device by name."""
    addresses: dict[int, set[str]] = {}
    for answer in netlink.dump(_RTM_GETADDR, _IFADDRMSG.pack(0, 0, 0, 0, 0)):
        ifindex, known = _IFADDRMSG.unpack_from(answer)[4], attributes(answer[_IFADDRMSG.size :])
        if packed := known.get(_IFA_LOCAL, known.get(_IFA_ADDRESS)):
            addresses.setdefault(ifindex, set()).add(str(ip_address(packed)))
    devices = {}
    for answer in netlink.dump(_RTM_GETLINK, IFINFOMSG.pack(0, 0, 0, 0, 0)):
        _, _, ifindex, flags, _ = IFINFOMSG.unpack_from(answer)
        known = attributes(answer[IFINFOMSG.size :])
        name = known[_IFNAME].rstrip(b"\0").decode()
        gso_max = known[IFLA_GSO_MAX_SIZE]
        devices[name] = Device(
            ifindex,
            name,
            frozenset(addresses.get(ifindex, ())),
            _u32(gso_max),
            _u32(known.get(IFLA_GSO_IPV4_MAX_SIZE, gso_max)),
            _u32(known[_NUM_TX_QUEUES]),
            bool(flags & _IFF_LOOPBACK),
        )
    return devices


def sent_bytes(netlink: Netlink, ifindex: int) -> int:
    """By a device, since it was made; raises OSError."""
    answer = netlink.get(_RTM_GETSTATS, _IF_STATS.pack(0, ifindex, 1 << _STATS_LINK_64 - 1))
    counts = attributes(answer[_IF_STATS.size :])[_STATS_LINK_64]
    _, _, _, sent = _FOUR_COUNTS.unpack_from(counts)
    return int(sent)


def link_speed_bps(name: str) -> float | None:
    """What the driver says; None when it does not know. (sysfs would answer for the namespace it was mounted in.)"""
    settings = array("B", bytes(_LINK_SETTINGS_BYTES))
    settings[0] = _ETHTOOL_GLINKSETTINGS
    request = struct.pack("=16sQ16x", name.encode(), settings.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            ioctl(asking, _SIOCETHTOOL, request)
            settings[_MASK_WORDS] = -settings[_MASK_WORDS] & 0xFF  # the first answer says how many there are, negated
            ioctl(asking, _SIOCETHTOOL, request)
    except OSError:
        return None
    speed_mbps = _u32(settings[4:8].tobytes())
    return speed_mbps * _BPS_PER_MBPS if 0 < speed_mbps < _SPEED_UNKNOWN else None


def _u32(value: bytes) -> int:
    return int.from_bytes(value[:4], "little")
