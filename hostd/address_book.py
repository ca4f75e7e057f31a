"""Which host an address is: of all that a socket may lead to, single addresses and whole networks.

    host of a = the entry for a itself, else the longest network with a in it

A node's pods have addresses of one network. A host's further NICs are ends of their own, host@rail (topology.py), where
the host whose book it is has a NIC on that rail, too: then both call the flows between them the same.
"""

import socket
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

from paceline.flowcore.model.topology import RAIL

KNOWN_ADDRESSES = 65_536
LOOKUPS = 16  # of names, at a time


class AddressBook(Mapping[str, str]):
    """As a mapping it has the single addresses; a look-up finds networks, too."""

    def __init__(self, hosts: Mapping[str, str], networks: Mapping[str, str] | None = None) -> None:
        self._hosts, self._networks = dict(hosts), dict(networks or {})
        self._index()

    def become(self, other: "AddressBook") -> None:
        """Has the entries of another from now on; what looks addresses up here need not be told."""
        self._hosts, self._networks = other._hosts, other._networks
        self._index()

    def _index(self) -> None:
        self._found: dict[str, str | None] = {}  # looked up in the networks before
        self._by_length: dict[tuple[int, int], dict[int, str]] = {}  # by version and length: first bits → host
        for text, host in self._networks.items():
            network = ip_network(text)
            bits = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
            self._by_length.setdefault((network.version, network.prefixlen), {})[bits] = host

    def __getitem__(self, address: str) -> str:
        host = self._hosts.get(address)
        if host is None and self._networks:
            if address not in self._found:
                if len(self._found) >= KNOWN_ADDRESSES:
                    self._found.clear()
                self._found[address] = self._of_network(address)
            host = self._found[address]
        if host is None:
            raise KeyError(address)
        return host

    def _of_network(self, text: str) -> str | None:
        try:
            address = ip_address(text)
        except ValueError:
            return None
        for (version, length), hosts in sorted(self._by_length.items(), reverse=True):
            if version == address.version:
                host = hosts.get(int(address) >> (address.max_prefixlen - length))
                if host is not None:
                    return host
        return None

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AddressBook):
            return self._hosts == other._hosts and self._networks == other._networks
        return not self._networks and self._hosts == other

    __hash__ = None  # type: ignore[assignment]  # it changes

    def has_network_of(self, host: str) -> bool:
        return host in self._networks.values()


def address_book(
    addresses: Mapping[str, tuple[str, ...]], this_host: str, rails: Collection[str] = ()
) -> tuple[AddressBook, list[str]]:
    """Of addresses, networks and names by host or host@rail; and what could not be looked up, a line each. `rails`:
    those of this host."""
    hosts: dict[str, str] = {}
    networks: dict[str, str] = {}
    names: dict[str, str] = {}
    for end, own in addresses.items():
        bare, _, rail = end.partition(RAIL)
        host = end if rail in rails and bare != this_host else bare
        for text in own:
            if "/" in text:
                networks[text] = host
            elif _is_address(text):
                hosts[text] = host
            else:
                names[text] = host
    found, problems = _looked_up(list(names))
    for name, its in found.items():
        for address in its:
            if (other := hosts.setdefault(address, names[name])) != names[name]:
                problems.append(f"{name}, of {names[name]}, is {address}, which is {other}'s")
    return AddressBook(hosts, networks), problems


def _looked_up(names: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The addresses of each name. Where the name server does not answer for one, the others are not asked for."""
    found: dict[str, list[str]] = {}
    problems: list[str] = []
    silent = False

    def look_up(name: str) -> None:
        nonlocal silent
        if silent:
            problems.append(f"{name} was not looked up: the name server does not answer")
            return
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            silent |= isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
            problems.append(f"{name} is no known name: {error.strerror}")
        except UnicodeError:
            problems.append(f"{name} is no name")
        else:
            every = (str(answer[4][0]) for answer in answers)
            found[name] = [text for text in dict.fromkeys(every) if not ip_address(text).is_loopback]

    if names:
        with ThreadPoolExecutor(LOOKUPS) as pool:
            list(pool.map(look_up, names))
    return {name: found[name] for name in names if name in found}, sorted(problems)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
