"""Addresses as operators write them: HOST:PORT, [IPv6]:PORT, unix:PATH."""

import re
from ipaddress import ip_address
from typing import NamedTuple


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_HOST_PORT = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")


def host_port(address: str) -> HostPort:
    """The two parts; ValueError says what was expected. Port 0 lets the kernel choose."""
    found = _HOST_PORT.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"found {address!r}, expected HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464")
    return HostPort(found["ipv6"] or found["name"], int(found["port"]))


def stays_on_this_machine(address: str) -> bool:
    """Whether no other machine can see what is sent there. False where that is not certain."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    try:
        host = host_port(address).host
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # not HOST:PORT, or a name that may resolve to any address
        return False
