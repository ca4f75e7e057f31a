"""What a host is told at its start, and again at a reload. deploy/hostd.toml explains every key."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from hostd.address_book import AddressBook, address_book
from hostd.enforce.settings import BACKENDS, EnforcementSettings
from hostd.enforce.transport import KERNEL_MIN_RTO_MS, Transport
from hostd.monitor.jobs_without_shim import JobWithoutShim
from hostd.monitor.quotas import QuotaLimits
from hostd.weights import WeightLimits
from paceline.flowcore.model.background import BACKGROUNDS, FAIR, YIELD
from paceline.flowcore.model.fields import (
    Field,
    InputError,
    Value,
    integer,
    list_of,
    number_from,
    one_of,
    printable_name,
    read_table,
)
from paceline.flowcore.model.scenario import SlotsSpec, slots_table, topology_table
from paceline.flowcore.model.topology import Topology, star_of
from paceline.flowcore.model.weights import LEAST, MOST
from paceline.flowcore.policy import POLICY_FIELDS, policy_from
from paceline.service.address import host_port
from paceline.service.renamed_keys import with_new_names
from paceline.service.tls import TlsFiles, plaintext_allowed, tls_files
from paceline.service.topology_file import read_topology_file, topology_file

MODES = ("observe", "advise", "enforce")
RUNTIME_DIRECTORY = Path("/run/paceline/hostd")
MIN_RTO_MS = 4.0  # dozens of round trips in a cluster; many kernels take no less than 8
MAX_CONFIG_BYTES = 1_000_000
MAX_PATTERN_CHARS = 1000
DEFAULT_QUOTAS = QuotaLimits()

# Old key → new key; the old ones go with the next release. docs/operations.md has the same list.
RENAMED = {"small_bundles": "small_tso_bursts", "retransmit_ms": "min_rto_ms"}


@dataclass(frozen=True, slots=True)
class HostConfig:
    name: str
    topology: Topology
    host_of: AddressBook  # address → host
    switch: str | None = None  # address of its ToR's switchd; None: decide alone
    slots: SlotsSpec = field(default_factory=SlotsSpec)
    policy: str = "paceline"  # with its objective: paceline:jct
    mode: str = "observe"
    backend: str = "auto"
    jobs: tuple[str, ...] | None = None  # only these are paced, each a name or user/name; None: all
    tenants: dict[int, str] = field(default_factory=dict)  # uid → tenant, where it is not the uid
    quotas: QuotaLimits = field(default_factory=QuotaLimits)  # of each tenant
    weights: WeightLimits = field(default_factory=WeightLimits)  # how much jobs may count
    without_shim: tuple[JobWithoutShim, ...] = ()  # seen through their sockets
    shim_directory: Path | None = None  # None: where the shim puts them by itself
    shim_socket: Path | None = None  # where jobs register; None: in the runtime directory
    runtime_directory: Path = RUNTIME_DIRECTORY
    state_directory: Path | None = None  # of the history; None: systemd's, if it names one
    takeover: bool = False  # replace a qdisc that hostd did not set, and put it back at the end
    small_tso_bursts: bool = False  # pacing: set net.ipv4.tcp_tso_rtt_log = 0 while hostd runs
    congestion_control: str | None = None  # of the sockets under control
    min_rto_ms: float = MIN_RTO_MS  # the least time before they send something again
    background: str = FAIR  # what cross traffic gets beside jobs
    metrics: str | None = None
    tls: TlsFiles | None = None
    plaintext: bool = False
    unresolved: tuple[str, ...] = ()  # names in the topology file without an address, a line each

    @property
    def switch_name(self) -> str:
        return self.topology.switch_of[self.name]

    @property
    def nic_bps(self) -> float:
        """Of the fastest of its NICs."""
        return max(link.capacity_bps for link in self.topology.nics(self.name))

    @property
    def enforcement(self) -> EnforcementSettings:
        return EnforcementSettings(
            enforcing=self.mode == "enforce",
            undo_log_path=self.runtime_directory / "lease.json",  # operators know it by this name
            nic_bps=self.nic_bps,
            host_bps=sum(link.capacity_bps for link in self.topology.nics(self.name)),
            backend=self.backend,
            addresses=frozenset(address for address, host in self.host_of.items() if host == self.name),
            takeover=self.takeover,
            small_tso_bursts=self.small_tso_bursts,
            transport=Transport(self.congestion_control, self.min_rto_ms),
            weighing=self.background != YIELD,
            page_directory=self.registration_socket.parent / "pages",  # where the shim looks for them
        )

    @property
    def control_socket(self) -> Path:
        return self.runtime_directory / "control.sock"

    @property
    def registration_socket(self) -> Path:
        """In a directory of its own, which containers can mount."""
        return self.shim_socket or self.runtime_directory / "jobs" / "hostd.sock"

    @property
    def lock(self) -> Path:
        return self.runtime_directory / "lock"


def read_config(path: Path, **overrides: Any) -> HostConfig:
    """What the command line says comes before the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1).decode()
    except UnicodeDecodeError:
        raise InputError(str(path), "the file", "no UTF-8 text", "TOML") from None
    if len(text) > MAX_CONFIG_BYTES:
        raise InputError(str(path), "the file", "more than a megabyte", "a host's configuration")
    return replace(parse_config(text, str(path)), **overrides)


def parse_config(text: str, source: str) -> HostConfig:
    try:
        root = Value(source, "", tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(source, "the file", f"no TOML ({error})", "a host's configuration in TOML") from None
    root = with_new_names(root, RENAMED)
    found: dict[str, Any] = read_table(root, _TOP)
    found |= _from_file(root, found) if found["topology_file"] is not None else _from_tables(root, found)
    for key in ("addresses", "nic_gbps", "topology_file"):
        del found[key]
    policy = policy_from(root, found)
    config = HostConfig(**found, policy=policy)
    if config.switch and config.tls is None and not plaintext_allowed(config.switch, config.plaintext):
        expected = "a [tls] table, a loopback address, or plaintext = true"
        raise InputError(source, "switch", f"{config.switch!r} without TLS", expected)
    return config


def _from_file(root: Value, found: Mapping[str, Any]) -> dict[str, Any]:
    """Topology and addresses, and its switch, if the file says where that listens and the configuration does not."""
    for key in ("topology", "addresses", "nic_gbps"):
        if not root.at(key).missing:
            raise root.at(key).wrong("nothing beside topology_file, which says it")
    cluster = read_topology_file(found["topology_file"])
    name, topology = found["name"], cluster.topology
    if name not in topology.switch_of:
        raise root.at("name").wrong(f"a host of {found['topology_file']}, such as {topology.hosts[0]}")
    host_of, unresolved = address_book(cluster.addresses, name, topology.rails.get(name, {}))
    switch = found["switch"] or cluster.listen.get(topology.switch_of[name])
    return {"topology": topology, "host_of": host_of, "unresolved": tuple(unresolved), "switch": switch}


def _from_tables(root: Value, found: Mapping[str, Any]) -> dict[str, Any]:
    """[topology] and [addresses]."""
    addresses, nic_gbps, topology = found["addresses"], found["nic_gbps"], found["topology"]
    if addresses is None:
        raise root.at("addresses").wrong("a table of keys for addresses, or topology_file")
    if topology is None:
        if nic_gbps is None:
            raise root.at("topology").wrong("a [topology] as in a scenario, or nic_gbps for a host on its own")
        if found["switch"] is not None:
            raise root.at("topology").wrong("the [topology] that the switch has, too")
        topology = star_of(tuple(addresses), nic_gbps)
    for name in (found["name"], *addresses):
        if name not in topology.switch_of:
            key = "name" if name == found["name"] else f"addresses.{name}"
            raise root.at(key).wrong(f"a host of the topology, {topology.hosts[0]} to {topology.hosts[-1]}")
    return {"topology": topology, "host_of": AddressBook(_host_of(root.at("addresses"), addresses))}


def _host_of(table: Value, addresses: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """An address that stands there twice is refused: of two hosts, one would be taken for the other."""
    host_of: dict[str, str] = {}
    for host, own in addresses.items():
        for address in own:
            if address in host_of:
                found = f"{address}, which is {host_of[address]}'s already"
                raise InputError(table.source, table.at(host).key, found, "every address once")
            host_of[address] = host
    return host_of


# ---- The tables ----


def _address(value: Value) -> str:
    if isinstance(value.found, str):
        try:
            return str(host_port(value.found))
        except ValueError:
            pass
    raise value.wrong("HOST:PORT, such as 127.0.0.1:7470 or [::1]:7470")


def _ip_addresses(value: Value) -> tuple[str, ...]:
    """One or several; a number would be an address to `ip_address`, and is a slip of the pen here."""
    found: list[object] = value.found if isinstance(value.found, list) else [value.found]
    texts = [address for address in found if isinstance(address, str)]
    if len(texts) == len(found):
        try:
            return tuple(str(ip_address(text)) for text in texts)
        except ValueError:
            pass
    raise value.wrong("an IP address, or a list of them")


def _addresses(value: Value) -> dict[str, tuple[str, ...]]:
    return {name: _ip_addresses(value.at(name)) for name in value.table()}


def _tenants(value: Value) -> dict[int, str]:
    """Uids of each tenant; the same map belongs on all hosts."""
    found: dict[int, str] = {}
    for name in value.table():
        uids = value.at(name)
        if "/" in name or not name.isprintable() or name.isdecimal():
            raise InputError(value.source, uids.key, repr(name), "a tenant's name without /, and no number")
        for uid in list_of(integer(0, 2**32 - 2), "uids", distinct=True)(uids):
            if uid in found:
                raise InputError(value.source, uids.key, f"{uid}, which is {found[uid]}'s already", "every uid once")
            found[uid] = name
    return found


def _quotas(value: Value) -> QuotaLimits:
    return QuotaLimits(**read_table(value, _QUOTAS))


def _weights(value: Value) -> WeightLimits:
    return WeightLimits(**read_table(value, _WEIGHTS))


def _weights_by_name(value: Value) -> dict[str, float]:
    return {name: number_from(LEAST, MOST)(value.at(name)) for name in value.table()}


def _job_name(value: Value) -> str:
    if "/" in (name := printable_name(value)):
        raise value.wrong("a name without /")
    return name


def _directory(value: Value) -> Path:
    if isinstance(value.found, str) and value.found.startswith("/") and "\0" not in value.found:
        return Path(value.found)
    raise value.wrong("an absolute path")


def _job_without_shim(value: Value) -> JobWithoutShim:
    found = read_table(value, _JOB_WITHOUT_SHIM)
    if sum(found[key] is not None for key in ("command", "cgroup", "pid")) != 1:
        raise value.wrong("one of command, cgroup and pid, to say which processes they are")
    return JobWithoutShim(**found)


def _pattern(value: Value) -> str:
    """Of stars alone it would take every process of the host."""
    if isinstance(value.found, str) and value.found.strip("*?[] ") and len(value.found) <= MAX_PATTERN_CHARS:
        return value.found
    raise value.wrong("a pattern such as *train.py*")


def _flag(value: Value) -> bool:
    if isinstance(value.found, bool):
        return value.found
    raise value.wrong("true or false")


_JOB_WITHOUT_SHIM = {
    "job": Field(_job_name),
    "command": Field(_pattern, None),
    "cgroup": Field(_pattern, None),
    "pid": Field(integer(1, 2**22), None),
}

_QUOTAS = {
    "jobs": Field(integer(1, 100_000), DEFAULT_QUOTAS.jobs),
    "flows": Field(integer(1, 100_000), DEFAULT_QUOTAS.flows),
    "claims": Field(integer(1, 1_000_000), DEFAULT_QUOTAS.claims),
}

_WEIGHTS = {
    "most": Field(number_from(LEAST, MOST), WeightLimits().most),
    "tenants": Field(_weights_by_name, {}),
    "jobs": Field(_weights_by_name, {}),
}

_TOP = {
    "name": Field(printable_name),
    "addresses": Field(_addresses, None),
    "topology_file": Field(topology_file, None),
    "topology": Field(topology_table, None),
    "nic_gbps": Field(number_from(1e-3, 1e4), None),
    "switch": Field(_address, None),
    "slots": Field(slots_table, SlotsSpec()),
    **POLICY_FIELDS,
    "mode": Field(one_of(*MODES), "observe"),
    "backend": Field(one_of(*BACKENDS), "auto"),
    "jobs": Field(list_of(printable_name, "job names", distinct=True), None),
    "tenants": Field(_tenants, {}),
    "quotas": Field(_quotas, DEFAULT_QUOTAS),
    "weights": Field(_weights, WeightLimits()),
    "without_shim": Field(list_of(_job_without_shim, "tables, each [[without_shim]]"), ()),
    "shim_directory": Field(_directory, None),
    "shim_socket": Field(_directory, None),
    "runtime_directory": Field(_directory, RUNTIME_DIRECTORY),
    "state_directory": Field(_directory, None),
    "takeover": Field(_flag, False),
    "small_tso_bursts": Field(_flag, False),
    "congestion_control": Field(printable_name, None),
    "background": Field(one_of(*BACKGROUNDS), FAIR),
    "min_rto_ms": Field(number_from(1.0, KERNEL_MIN_RTO_MS), MIN_RTO_MS),
    "metrics": Field(_address, None),
    "tls": Field(tls_files, None),
    "plaintext": Field(_flag, False),
}
