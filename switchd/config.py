"""The configuration of a switch: a TOML file of its own, or a scenario that describes the whole cluster.

name = "tor0"                   # of this switch in the topology
listen = "10.0.0.1:7470"
policy = "paceline"             # whose arbiter divides the current slot
background = "fair"             # what cross traffic gets beside jobs: "yield", "fair" or "training-first"
objective = "slowdown"          # what it wants least of: mean slowdown, or "jct", mean time to a job's end
metrics = "127.0.0.1:9465"      # optional
plaintext = false               # true: without TLS also beyond loopback

[slots]                         # as in a scenario
[topology]                      # as in a scenario; or, instead of it, above: topology_file = "topology.toml"
[parents]                       # name → address of every switch one tier up; a topology file may say these and `listen`
[tls]                           # ca, certificate, key: PEM files; `paceline certs` makes them
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.flowcore.model.background import BACKGROUNDS, FAIR
from paceline.flowcore.model.fields import Field, InputError, Value, integer, number_from, one_of, read_table
from paceline.flowcore.model.scenario import SlotsSpec, parse_scenario, slots_table, topology_table
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.weights import LEAST, MOST
from paceline.flowcore.policy import POLICY_FIELDS, policy_from
from paceline.service.address import HostPort, host_port
from paceline.service.tls import TlsFiles, plaintext_allowed, tls_files
from paceline.service.topology_file import read_topology_file, topology_file

DEFAULT_PORT = 7470

# Each of a host's flows costs the switch about 2 kB for as long as its job is remembered.
DEFAULT_MAX_FLOWS = 512


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    name: str
    listen: str
    topology: Topology
    slots: SlotsSpec = field(default_factory=SlotsSpec)
    policy: str = "paceline"  # with its objective: paceline:jct
    parents: dict[str, str] = field(default_factory=dict)  # name → address
    tls: TlsFiles | None = None
    plaintext: bool = False
    metrics: str | None = None
    max_flows_per_host: int = DEFAULT_MAX_FLOWS
    max_weight: float = 1.0
    background: str = FAIR  # what cross traffic gets beside jobs


def parse_config(text: str, source: str) -> SwitchConfig:
    try:
        root = Value(source, "", tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(source, "the file", f"no TOML ({error})", "a switch's configuration in TOML") from None
    found: dict[str, Any] = read_table(root, _TOP)
    file = found.pop("topology_file")
    if file is not None:
        found |= _from_file(root, file, found)
    if found["topology"] is None:
        raise root.at("topology").wrong("a [topology] as in a scenario, or topology_file")
    if found["listen"] is None:
        raise root.at("listen").wrong("an address, HOST:PORT")
    policy = policy_from(root, found)
    config = SwitchConfig(**found | {"parents": found["parents"] or {}}, policy=policy)
    topology = config.topology
    if config.name not in topology.switches:
        raise root.at("name").wrong(f"a switch of the topology: {_some(topology.switches)}")
    above = topology.parents.get(config.name, ())
    if set(config.parents) != set(above):
        expected = f"the address of each of {_some(above)}" if above else "no parents: this is the top"
        raise root.at("parents").wrong(expected)
    for key, address in (("listen", config.listen), *((f"parents.{n}", a) for n, a in config.parents.items())):
        if config.tls is None and not plaintext_allowed(address, config.plaintext):
            expected = "a [tls] table, a loopback address, or plaintext = true"
            raise InputError(source, key, f"{address!r} without TLS", expected)
    return config


def _from_file(root: Value, path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """The topology; and where this switch and its parents listen, as far as the configuration does not say it."""
    if found["topology"] is not None:
        raise root.at("topology").wrong("nothing beside topology_file, which says it")
    cluster = read_topology_file(path)
    above = cluster.topology.parents.get(found["name"], ())
    said = {name: cluster.listen[name] for name in above if name in cluster.listen}
    return {
        "topology": cluster.topology,
        "parents": said if found["parents"] is None else found["parents"],
        "listen": found["listen"] or cluster.listen.get(found["name"]),
    }


def read_config(path: Path) -> SwitchConfig:
    return parse_config(text_of(path), str(path))


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(str(path), "the file", "no UTF-8 text", "TOML") from None


def of_scenario(path: Path, text: str, switch: str, policy: str, base_port: int = DEFAULT_PORT) -> SwitchConfig:
    """One switch of a scenario on this machine: every switch listens on loopback, at a port by its position."""
    scenario = parse_scenario(text, str(path))
    topology = scenario.topology
    if switch not in topology.switches:
        raise InputError(str(path), "--switch", repr(switch), f"a switch of it: {_some(topology.switches)}")
    above = topology.parents.get(switch, ())
    return SwitchConfig(
        name=switch,
        listen=loopback_address(topology, switch, base_port),
        topology=topology,
        slots=scenario.slots,
        policy=policy,
        parents={name: loopback_address(topology, name, base_port) for name in above},
    )


def loopback_address(topology: Topology, switch: str, base_port: int = DEFAULT_PORT) -> str:
    return f"127.0.0.1:{base_port + topology.switches.index(switch)}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


# ---- The tables ----


def _address(value: Value) -> str:
    if not isinstance(value.found, str):
        raise value.wrong("an address, HOST:PORT")
    try:
        return str(HostPort(*host_port(value.found)))
    except ValueError:
        raise value.wrong("HOST:PORT, such as 127.0.0.1:7470 or [::1]:7470") from None


def _addresses(value: Value) -> dict[str, str]:
    return {name: _address(value.at(name)) for name in value.table()}


def _name(value: Value) -> str:
    if isinstance(value.found, str):
        return value.found
    raise value.wrong("the name of a switch of the topology")


def _flag(value: Value) -> bool:
    if isinstance(value.found, bool):
        return value.found
    raise value.wrong("true or false")


_TOP = {
    "name": Field(_name),
    "listen": Field(_address, None),
    "topology": Field(topology_table, None),
    "topology_file": Field(topology_file, None),
    "slots": Field(slots_table, SlotsSpec()),
    **POLICY_FIELDS,
    "parents": Field(_addresses, None),
    "tls": Field(tls_files, None),
    "plaintext": Field(_flag, False),
    "metrics": Field(_address, None),
    "max_flows_per_host": Field(integer(1, 1_000_000), DEFAULT_MAX_FLOWS),
    "max_weight": Field(number_from(LEAST, MOST), 1.0),
    "background": Field(one_of(*BACKGROUNDS), FAIR),
}
