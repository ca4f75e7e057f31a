"""The hosts and switches of a cluster with their addresses, from a file that is there already.

TOML    a scenario, hostd.toml or switchd.toml: every host and switch of its [topology]; addresses are those of
        [addresses], of [parents], and the `listen` of the switch that it is for; or a topology file, or a
        configuration that names one
text    a line each: NAME ADDRESS…, with commas or spaces; # begins a comment
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError
from paceline.flowcore.model.fields import InputError, Value
from paceline.flowcore.model.scenario import topology_table
from paceline.flowcore.model.topology import RAIL
from paceline.flowcore.model.topology_file import ClusterMap
from paceline.service.topology_file import read_topology_file, topology_file

MAX_BYTES = 10_000_000


def names_in(path: Path) -> dict[str, tuple[str, ...]]:
    """Addresses by name; raises CommandError or OSError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path}: found no UTF-8 text, expected TOML with a [topology], or a name a line") from None
    found = _of_toml(path, text) if path.suffix == ".toml" else _of_lines(path, text)
    if not found:
        raise CommandError(f"{path}: found no name, expected a host or switch a line")
    return found


def _of_toml(path: Path, text: str) -> dict[str, tuple[str, ...]]:
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise CommandError(f"{path}: found no TOML ({error}), expected a [topology]") from None
    try:
        if "hosts" in table or "topology_file" in table:
            own = path if "hosts" in table else topology_file(Value(str(path), "", table).at("topology_file"))
            return _of_cluster(read_topology_file(own))
        topology: Any = topology_table(Value(str(path), "", table).at("topology"))
    except InputError as error:
        raise CommandError(str(error)) from None
    addresses: dict[str, list[str]] = {name: [] for name in (*topology.hosts, *topology.switches)}
    _add(addresses, table.get("addresses"))
    _add(addresses, table.get("parents"))
    _add(addresses, {table.get("name"): table.get("listen")})
    return {name: tuple(dict.fromkeys(own)) for name, own in addresses.items()}


def _of_cluster(cluster: ClusterMap) -> dict[str, tuple[str, ...]]:
    """Networks are no address of a certificate; a host's NICs have one between them."""
    found: dict[str, list[str]] = {name: [] for name in (*cluster.topology.hosts, *cluster.topology.switches)}
    for end, own in cluster.addresses.items():
        found[end.partition(RAIL)[0]] += [address for address in own if "/" not in address]
    _add(found, cluster.listen)
    return {name: tuple(dict.fromkeys(own)) for name, own in found.items()}


def _add(addresses: dict[str, list[str]], more: object) -> None:
    """What is wrong there is hostd's and switchd's to refuse."""
    for name, own in more.items() if isinstance(more, Mapping) else ():
        texts = own if isinstance(own, list) else [own]
        if name in addresses:
            addresses[name] += [_without_port(text) for text in texts if isinstance(text, str)]


def _without_port(text: str) -> str:
    """Of HOST:PORT and [IPv6]:PORT; a bare IPv6 address has several colons."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _of_lines(path: Path, text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if words[0] in found:
            raise CommandError(f"{path}: line {number}: found {words[0]!r} a second time, expected every name once")
        found[words[0]] = tuple(words[1:])
    return found
