"""A topology file, version 1: a real cluster's hosts and switches, their cables and addresses.

    version = 1

    [switches]                  # a line each; `listen`: where its switchd does
    core = {listen = "10.0.0.3:7470"}
    rack1 = {parents = ["core"], gbps = 100, listen = "10.0.0.1:7470"}
    rack2 = {parents = ["core"], gbps = 40, listen = "10.0.0.2:7470"}

    [hosts]                     # addresses, networks (a node's pods) or names
    gpu-a = {switch = "rack1", gbps = 25, addresses = ["10.0.1.10", "fd00::10", "10.244.3.0/24"]}
    gpu-b = {nics = [
        {switch = "rack1", gbps = 100, addresses = ["10.1.0.11"]},
        {name = "rail1", switch = "rack2", gbps = 100, addresses = ["10.2.0.11"]},
    ]}

With several parents `gbps` may be a list, a rate for each. A bond is one NIC with the rate of the whole, and a VLAN a
further address of its NIC.

Law: a file that parsed is a topology in which any two hosts have a path, and in which the first parents of all lead to
one top: there jobs that meet nowhere below are divided (domain.py). Any other text raises InputError, in one line.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import combinations
from math import lcm
from typing import Any

from paceline.flowcore.model.fields import Field, InputError, Value, list_of, number_from, read_table
from paceline.flowcore.model.topology import RAIL, Topology, UnconnectedError, wired

MAX_NODES = 100_000
MIN_GBPS, MAX_GBPS = 1e-3, 1e5
MOST_CHOICES = 64  # of parents, tried for whether all lead to a common switch
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DNS_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?\.?")


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """What a topology file says."""

    topology: Topology
    addresses: Mapping[str, tuple[str, ...]]  # of each host or host@rail: IP addresses, networks and DNS names
    listen: Mapping[str, str]  # where switches listen, as far as the file says


@dataclass(frozen=True, slots=True)
class _Nic:
    name: str | None  # None: the first one may go without
    switch: str
    gbps: float
    addresses: tuple[str, ...]


def parse_topology_file(text: str, source: str) -> ClusterMap:
    try:
        root = Value(source, "", tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(source, "the file", f"no TOML ({error})", "a topology file") from None
    top: dict[str, Any] = read_table(root, _TOP)
    switches, hosts = top["switches"], top["hosts"]
    for name in hosts:
        if name in switches:
            raise InputError(source, f"hosts.{name}", "the name of a switch", "a name of its own")
    if len(switches) + len(hosts) > MAX_NODES:
        raise InputError(source, "the file", f"{len(switches) + len(hosts)} nodes", f"at most {MAX_NODES}")
    _check_parents(root, switches)
    uplinks = {name: tuple(zip(one["parents"], one["gbps"], strict=True)) for name, one in switches.items()}
    rails: dict[str, dict[str, str]] = {}
    addresses: dict[str, tuple[str, ...]] = {}
    for host, nics in hosts.items():
        _check_nics(root.at("hosts").at(host), nics, switches)
        uplinks[host] = tuple((nic.switch, nic.gbps) for nic in nics)
        addresses[host] = nics[0].addresses
        if len(nics) > 1:
            rails[host] = {str(nic.name): nic.switch for nic in nics[1:]}
            addresses |= {f"{host}{RAIL}{nic.name}": nic.addresses for nic in nics[1:]}
    _refuse_repeats(root, addresses)
    topology = wired(tuple(hosts), tuple(switches), uplinks, rails)
    _check_tops(root, topology)
    _check_paths(root, topology)
    return ClusterMap(topology, addresses, {name: one["listen"] for name, one in switches.items() if one["listen"]})


# ---- What one entry cannot know ----


def _check_parents(root: Value, switches: Mapping[str, dict[str, Any]]) -> None:
    """All are switches, and no way upward returns to where it began."""
    table = root.at("switches")
    for name, one in switches.items():
        for parent in one["parents"]:
            if parent not in switches:
                raise _unknown(table.at(name).at("parents"), parent, switches)
    state: dict[str, bool] = {}  # a switch on the way upward: False; known to lead to a top: True
    for start in switches:
        way = [start]
        while way:
            node = way[-1]
            if state.setdefault(node, False):
                way.pop()
                continue
            below = [parent for parent in switches[node]["parents"] if not state.get(parent)]
            for parent in below:
                if parent in state:
                    found = f"{parent}, which is below {node} or {node} itself"
                    raise InputError(root.source, f"switches.{node}.parents", found, "switches further up")
            if not below:
                state[node] = True
                way.pop()
            else:
                way.append(below[0])


def _check_tops(root: Value, topology: Topology) -> None:
    """The first parents of all racks lead to one."""
    top_of: dict[str, str] = {}
    for host in topology.hosts:
        for _, rack in ((host, topology.switch_of[host]), *_rails(topology, host)):
            top = rack
            while above := topology.parents.get(top):
                top = above[0]
            top_of.setdefault(top, rack)
    if len(top_of) > 1:
        first, second = list(top_of.items())[:2]
        found = f"{first[1]} below {first[0]}, and {second[1]} below {second[0]}"
        raise InputError(root.source, "switches", found, "one top that the first parents of all racks lead to")


def _check_nics(host: Value, nics: tuple[_Nic, ...], switches: Mapping[str, object]) -> None:
    for nic in nics:
        if nic.switch not in switches:
            raise _unknown(host, nic.switch, switches)
    named = [nic.name for nic in nics[1:]]
    if None in named or len(set(named)) < len(named):
        raise host.at("nics").wrong("a `name` for each NIC but the first, no two alike")
    if len({nic.switch for nic in nics}) < len(nics):
        raise host.at("nics").wrong("another switch for each NIC; those to one switch are a bond: one NIC")


def _unknown(value: Value, name: str, switches: Iterable[str]) -> InputError:
    some = ", ".join(list(switches)[:5])
    return InputError(value.source, value.key, f"switch {name!r}", f"one of [switches]: {some or 'there are none'}")


def _refuse_repeats(root: Value, addresses: Mapping[str, tuple[str, ...]]) -> None:
    """Of two hosts with one address, one would be taken for the other."""
    owner: dict[str, str] = {}
    for host, own in addresses.items():
        for address in own:
            if address in owner:
                found = f"{address}, which is {owner[address]}'s already"
                raise InputError(root.source, f"hosts.{host.partition(RAIL)[0]}", found, "every address once")
            owner[address] = host


def _check_paths(root: Value, topology: Topology) -> None:
    """Any two hosts have a path. Hosts whose switches have the same parents are alike, so a host of each kind will do;
    ECMP's choices are tried one by one."""
    kinds: dict[tuple[str, ...], str] = {}
    for host in topology.hosts:
        for end, switch in ((host, topology.switch_of[host]), *_rails(topology, host)):
            kinds.setdefault(topology.parents.get(switch, (switch,)), end)
    several = {len(above) for above in topology.parents.values()} - {1}
    choices = 1 if not several else min(MOST_CHOICES, lcm(*several) * 2)
    for one, other in combinations(kinds.values(), 2):
        for choice in range(choices):
            try:
                topology.path(one.partition(RAIL)[0], other, str(choice))
            except UnconnectedError as error:
                raise InputError(root.source, "switches", str(error), "parents that lead to a common switch") from None


def _rails(topology: Topology, host: str) -> list[tuple[str, str]]:
    return [(f"{host}{RAIL}{rail}", switch) for rail, switch in topology.rails.get(host, {}).items()]


# ---- The tables of version 1 ----


def _version(value: Value) -> None:
    if type(value.found) is not int or value.found != 1:
        raise value.wrong("1, the only version there is")


def _name(value: Value, name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    shown = name[:40]
    raise InputError(value.source, f"{value.key}.{shown}", repr(shown), "a name of letters, digits, dots and dashes")


def _text(value: Value) -> str:
    if isinstance(value.found, str) and _NAME.fullmatch(value.found):
        return value.found
    raise value.wrong("a name of letters, digits, dots and dashes")


_GBPS = number_from(MIN_GBPS, MAX_GBPS)


def _rates(value: Value) -> float | tuple[float, ...]:
    return list_of(_GBPS, "rates")(value) if isinstance(value.found, list) else _GBPS(value)


def _listen(value: Value) -> str:
    if isinstance(value.found, str) and re.fullmatch(r"\S{1,300}:\d{1,5}", value.found):
        return value.found
    raise value.wrong("HOST:PORT, such as 10.0.0.1:7470 or [fd00::1]:7470")


def _address(value: Value) -> str:
    """An address or a network as Python writes it, or a DNS name as it stands."""
    found = value.found
    if isinstance(found, str):
        try:
            return str(ip_network(found)) if "/" in found else str(ip_address(found))
        except ValueError:
            pass
        # Four numbers and dots are a mistyped address, and no name.
        if _DNS_NAME.fullmatch(found) and not re.fullmatch(r"[\d.]+", found):
            return found
    raise value.wrong("an IP address, a network such as 10.244.3.0/24, or a DNS name")


_ADDRESSES = list_of(_address, "addresses", distinct=True)


def _addresses(value: Value) -> tuple[str, ...]:
    return (_address(value),) if isinstance(value.found, str) else _ADDRESSES(value)


_NIC = {
    "name": Field(_text, None),
    "switch": Field(_text),
    "gbps": Field(_GBPS),
    "addresses": Field(_addresses, ()),
}
_ONE_NIC = {key: field for key, field in _NIC.items() if key != "name"}
_SWITCH = {
    "parents": Field(list_of(_text, "switches", distinct=True), ()),
    "gbps": Field(_rates, None),
    "listen": Field(_listen, None),
}


def _nic(value: Value) -> _Nic:
    return _Nic(**read_table(value, _NIC))


def _host(value: Value) -> tuple[_Nic, ...]:
    if "nics" not in value.table():
        return (_Nic(name=None, **read_table(value, _ONE_NIC)),)
    nics: tuple[_Nic, ...] = read_table(value, {"nics": Field(list_of(_nic, "tables, one for each NIC"))})["nics"]
    if not nics:
        raise value.at("nics").wrong("one NIC or more")
    return nics


def _switch(value: Value) -> dict[str, Any]:
    found = read_table(value, _SWITCH)
    above, rates = len(found["parents"]), found["gbps"]
    if above and rates is None:
        raise value.at("gbps").wrong("the rate of the cable to its parents, or a list of rates")
    if isinstance(rates, tuple) and len(rates) != above:
        raise value.at("gbps").wrong(f"a rate, or {above} of them: one for each parent")
    return {**found, "gbps": rates if isinstance(rates, tuple) else (rates,) * above}


def _switches(value: Value) -> dict[str, dict[str, Any]]:
    found = {_name(value, name): _switch(value.at(name)) for name in value.table()}
    if not found:
        raise value.wrong("one switch or more")
    return found


def _hosts(value: Value) -> dict[str, tuple[_Nic, ...]]:
    found = {_name(value, name): _host(value.at(name)) for name in value.table()}
    if not found:
        raise value.wrong("one host or more")
    return found


_TOP = {
    "version": Field(_version),
    "switches": Field(_switches),
    "hosts": Field(_hosts),
}
