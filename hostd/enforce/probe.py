"""What works on this host, why not, and what to change. Law: a probe changes nothing.

    htb        a class tree is asked for with its options missing: a kernel without HTB does not know the kind, one
               that has it refuses the request, and a process without the capability does not get that far
    sockets    options are set on a socket of our own, which is then duplicated as a job's would be

`auto` takes htb, whose classes borrow from each other, unless a device that carries this host's traffic has several
queues and is so fast that HTB's one lock for all of them would be the bottleneck, or has a qdisc that hostd did not
set; then pacing; and observe where neither works.
"""

import errno
import os
import socket
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hostd.enforce.htb_device import FIRST_MINOR, MAJOR
from hostd.enforce.pacing import TSO_RTT_LOG
from hostd.enforce.socket_options import SO_MAX_PACING_RATE, SO_PRIORITY
from hostd.kernel.devices import Device, link_speed_bps, read_devices
from hostd.kernel.netlink import Netlink
from hostd.kernel.pidfd import SocketGone, cookie_of, duplicated_socket
from hostd.kernel.qdisc_tree import RTM_NEWQDISC, TC_H_ROOT, Node, read_tree

# Above it a NIC needs more than one queue to be filled, and HTB serialises them.
ONE_LOCK_BPS = 25e9

SO_PEERPIDFD = 77  # Linux 6.5
_LOOPBACK_IFINDEX = 1
_CAP_DAC_READ_SEARCH, _CAP_SYS_PTRACE = 1 << 2, 1 << 19


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    usable: bool
    reason: str
    advice: str = ""


def probe() -> list[Finding]:
    """In the order people should read them: backends, what they need, devices."""
    htb, priority, pace = _htb(), _socket_option("SO_PRIORITY", SO_PRIORITY, MAJOR | FIRST_MINOR), _pacing()
    reach = _duplicating()
    return [
        _backend("htb", [htb, priority, reach]),
        _backend("pacing", [pace, reach]),
        Finding("throttle", True, "paces what NCCL sends in jobs of `paceline run --throttle`, on any transport"),
        Finding("gate", True, "holds the launches of jobs with the shim, on any transport; sets no rate"),
        Finding("observe", True, "needs nothing"),
        *(htb, priority, pace, reach, _registration(), _bundles(), _congestion_controls()),
        *_devices(),
    ]


def choose(findings: Iterable[Finding], devices: Collection[Device] = (), takeover: bool = False) -> str:
    """`auto` for a host whose traffic leaves through these devices: the first backend that works."""
    works = {finding.name: finding.usable for finding in findings}
    taken = not takeover and any(not works.get(f"device {device.name}", True) for device in devices)
    pacing_first = taken or any(_is_fast(device) for device in devices)
    order = ("pacing", "htb", "observe") if pacing_first else ("htb", "pacing", "observe")
    return next(name for name in order if works[name])


def by_job(chosen: str) -> dict[str, str]:
    """What `auto` takes for which jobs, where it takes that for the host (by_job/backend.py)."""
    if chosen not in ("htb", "pacing"):
        return {}
    return {
        "jobs in this host's network": chosen,
        "jobs in another network namespace": "pacing",
        "jobs without sockets, of paceline run --throttle": "throttle",
        "other jobs without sockets": "gate",
    }


def carrying(devices: Mapping[str, Device], addresses: Collection[str] = ()) -> list[Device]:
    """The devices with one of these addresses; where none has, all that have any."""
    outward = [device for device in devices.values() if device.addresses and not device.loopback]
    return [device for device in outward if device.addresses & {*addresses}] or outward


def _is_fast(device: Device) -> bool:
    return device.queues > 1 and (link_speed_bps(device.name) or 0) > ONE_LOCK_BPS


def _backend(name: str, needs: Iterable[Finding]) -> Finding:
    for need in needs:
        if not need.usable:
            return Finding(name, False, f"{need.name}: {need.reason}", need.advice)
    return Finding(name, True, "everything it needs works")


def _htb() -> Finding:
    name = "HTB in the kernel"
    request = Node("htb", MAJOR, TC_H_ROOT, 0, b"").message(RTM_NEWQDISC, _LOOPBACK_IFINDEX)
    with Netlink() as netlink:
        try:
            netlink.ask(request)
        except PermissionError:
            return Finding(name, False, "not permitted", "grant CAP_NET_ADMIN")
        except FileNotFoundError:
            return Finding(name, False, "this kernel has none", "modprobe sch_htb, or use pacing")
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EEXIST):
                return Finding(name, False, error.strerror or str(error))
    return Finding(name, True, "known to the kernel")


def _socket_option(name: str, option: tuple[int, int], value: int) -> Finding:
    with socket.socket() as own:
        try:
            own.setsockopt(*option, value)
        except OSError as error:
            return Finding(name, False, error.strerror or str(error), "grant CAP_NET_ADMIN")
    return Finding(name, True, "can be set")


def _pacing() -> Finding:
    name = "SO_MAX_PACING_RATE"
    fast = (100 * 10**9 // 8).to_bytes(8, "little")
    with socket.socket() as own:
        own.setsockopt(*SO_MAX_PACING_RATE, fast)
        if own.getsockopt(*SO_MAX_PACING_RATE, 8) != fast:
            return Finding(name, False, "the kernel cuts rates to 32 bits", "needs Linux 5.0 or newer")
    return Finding(name, True, "can be set")


def _duplicating() -> Finding:
    name = "jobs' sockets"
    with socket.socket() as own:
        try:
            with duplicated_socket(os.getpid(), own.fileno(), cookie_of(own)):
                pass
        except (SocketGone, OSError) as error:
            return Finding(name, False, str(error), "needs Linux 5.6 or newer (pidfd_getfd)")
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return _reach(effective, Path("/proc/self/fdinfo").stat().st_mode)


def _reach(capabilities: int, fdinfo_mode: int) -> Finding:
    """Of which users: sockets are duplicated with one right, found with another or since Linux 5.14 (sockets.py)."""
    name = "jobs' sockets"
    if not capabilities & _CAP_SYS_PTRACE:
        advice = "grant CAP_SYS_PTRACE for other users' jobs"
        return Finding(name, True, "can be duplicated from our own user only", advice)
    if not capabilities & _CAP_DAC_READ_SEARCH and not fdinfo_mode & stat.S_IROTH:
        advice = "needs Linux 5.14 or newer for other users' jobs, or grant CAP_DAC_READ_SEARCH"
        return Finding(name, True, "can be found in processes of our own user only", advice)
    return Finding(name, True, "can be found and duplicated, of every user")


def _registration() -> Finding:
    """How jobs' counters come to hostd, and how well it knows of which process."""
    name = "jobs' counters"
    one, other = socket.socketpair()
    with one, other:
        try:
            os.close(one.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))
        except OSError:
            return Finding(name, True, "registered over hostd's socket; their process is known by pid and user")
    return Finding(name, True, "registered over hostd's socket; their process is known by a pidfd")


def _bundles() -> Finding:
    name = "net.ipv4.tcp_tso_rtt_log"
    try:
        value = TSO_RTT_LOG.read_text().strip()
    except OSError:
        return Finding(name, True, "absent: bundles are a millisecond long at any round trip")
    if value == "0":
        return Finding(name, True, "0: bundles are a millisecond long at any round trip")
    reason = f"{value}: on short round trips bundles grow to 64 KB, and pacing below 1 Gbit/s is coarse"
    return Finding(name, os.access(TSO_RTT_LOG, os.W_OK), reason, f"sysctl -w {name}=0, or allow hostd to set it")


def _congestion_controls() -> Finding:
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    missing = "bbr" not in available
    advice = "modprobe tcp_bbr: under our rates random loss would not halve the window" if missing else ""
    return Finding("congestion controls", not missing, " ".join(available), advice)


def _devices() -> list[Finding]:
    found = []
    with Netlink() as netlink:
        for name, device in read_devices(netlink).items():
            if device.loopback or not device.addresses:
                continue
            tree = read_tree(netlink, device.ifindex)
            root = tree.root.kind if tree.root else "none"
            if tree.is_default or (tree.root and tree.root.handle == MAJOR):
                found.append(Finding(f"device {name}", True, f"root qdisc {root}"))
            else:
                advice = "takeover = true replaces it and puts it back at the end; pacing leaves it alone"
                found.append(Finding(f"device {name}", False, f"the qdisc {root} was not set by hostd", advice))
    return found
