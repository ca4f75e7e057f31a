"""What a configuration needs of this host, looked at before anything is started; `hostd --check` does no more.

refused      what can never work: a file that is not there, a control that the kernel does not have
warned of    what may be meant: the check may be made on another machine than the one that it is for
"""

import errno
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from hostd.config import HostConfig
from hostd.enforce.transport import TCP_CONGESTION
from hostd.kernel.devices import read_devices
from hostd.kernel.netlink import Netlink
from paceline.flowcore.model.fields import InputError
from paceline.service.handshakes.certificates import require_valid

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
MOST_NAMED = 5


def refuse_what_cannot_work(config: HostConfig, source: str) -> None:
    """Raises InputError, or OSError for a file that is not there."""
    if config.tls is not None:
        require_valid(config.tls, config.name)
    if config.congestion_control is not None:
        _require_congestion_control(config.congestion_control, source)


def warnings(config: HostConfig) -> Iterator[str]:
    """One line each."""
    listed = {address for address, host in config.host_of.items() if host == config.name}
    own = _own_addresses()
    if not listed and not config.host_of.has_network_of(config.name):
        yield f"addresses: {config.name}, this host, has none: other hosts cannot tell that a flow comes from here"
    elif listed and not any(config.host_of.get(address) == config.name for address in own):
        yield (
            f"addresses.{config.name}: {_some(listed)} is on no device of this host, which has {_some(own) or 'none'}: "
            "its jobs will not be known as this host's"
        )
    for address in sorted(own):
        if (host := config.host_of.get(address, config.name)) != config.name:
            yield f"addresses.{host}: {address} is an address of this host, {config.name}"
    for problem in config.unresolved[:MOST_NAMED]:
        yield f"topology_file: {problem}"


def _require_congestion_control(name: str, source: str) -> None:
    """Tried on a socket: the kernel loads a module for it where it has one."""
    with socket.socket() as own:
        try:
            own.setsockopt(*TCP_CONGESTION, name.encode())
        except OSError as error:
            if error.errno == errno.EPERM:
                return  # there, and for privileged processes only, as hostd is one
            there = AVAILABLE.read_text().split()
            expected = f"one that this kernel has: {', '.join(there)}"
            raise InputError(source, "congestion_control", repr(name), expected) from None


def _own_addresses() -> set[str]:
    with Netlink() as netlink:
        devices = read_devices(netlink).values()
    addresses = {address for device in devices if not device.loopback for address in device.addresses}
    return {address for address in addresses if not ip_address(address).is_link_local}


def _some(addresses: set[str]) -> str:
    every = sorted(addresses)
    return ", ".join(every[:MOST_NAMED]) + (", …" if len(every) > MOST_NAMED else "")
