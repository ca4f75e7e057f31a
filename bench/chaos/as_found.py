"""Everything of a host that hostd may change, so that what is there at the end can be compared with what was found."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from bench.testbed.namespace import Namespace
from hostd.enforce.pacing import TSO_RTT_LOG
from hostd.enforce.socket_options import SO_MAX_PACING_RATE, SO_PRIORITY
from hostd.enforce.transport import TCP_CONGESTION, Option, Transport
from hostd.kernel.devices import Device, read_devices
from hostd.kernel.netlink import Netlink
from hostd.kernel.pidfd import SocketGone, duplicated_socket
from hostd.kernel.qdisc_tree import QdiscTree, read_tree
from hostd.kernel.sockets import ProcessSockets

_OPTIONS: Mapping[str, Option] = {
    "SO_PRIORITY": SO_PRIORITY,
    "SO_MAX_PACING_RATE": SO_MAX_PACING_RATE,
    "TCP_CONGESTION": TCP_CONGESTION,
    **{f"option {level}/{number}": (level, number) for level, number in Transport(min_rto_ms=40.0).where_lossy(False)},
}


@dataclass(frozen=True, slots=True)
class HostState:
    devices: Mapping[str, Device]
    trees: Mapping[str, QdiscTree]
    sysctl: str
    options: frozenset[tuple[str, str, str]]  # job, option, value in hex: each that a socket of the job has


def read_state(namespace: Namespace, pids: Mapping[str, int]) -> HostState:
    """`pids` are those of the host's jobs."""
    with namespace.enter():
        with Netlink() as netlink:
            devices = read_devices(netlink)
            trees = {name: read_tree(netlink, device.ifindex) for name, device in devices.items()}
        sysctl = TSO_RTT_LOG.read_text().strip()
    options = frozenset((job, *option) for job, pid in pids.items() for option in _options_of(pid))
    return HostState(devices, trees, sysctl, options)


def _options_of(pid: int) -> Iterable[tuple[str, str]]:
    process = ProcessSockets(pid)
    process.look()
    for one in process.sockets:
        with suppress(SocketGone, OSError), duplicated_socket(one.pid, one.fd, one.cookie) as theirs:
            yield from [(name, theirs.getsockopt(*option, 16).hex()) for name, option in _OPTIONS.items()]


def differences(host: str, before: HostState, after: HostState) -> list[str]:
    found = []
    for name, device in before.devices.items():
        if after.devices.get(name) != device:
            found.append(f"{host}: device {name} was {device}, is {after.devices.get(name)}")
        if after.trees.get(name) != before.trees[name]:
            found.append(f"{host}: the queueing of {name} was {_kinds(before, name)}, is {_kinds(after, name)}")
    if after.sysctl != before.sysctl:
        found.append(f"{host}: {TSO_RTT_LOG} was {before.sysctl}, is {after.sysctl}")
    for job, option, value in sorted(after.options - before.options):
        found.append(f"{host}: a socket of {job} has {option} {value}, which none had before")
    return found


def _kinds(state: HostState, name: str) -> str:
    tree = state.trees.get(name)
    return "gone" if tree is None else " ".join(f"{node.kind} {node.handle >> 16:x}:" for node in tree.qdiscs)
