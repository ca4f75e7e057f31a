"""A topology of flowcore as a network of this kernel: a namespace per host and switch, a veth pair per cable.

Switches forward IP packets between their ports; capacity is on the ports (ports.py), the way is in the routes
(routes.py), a second, unlimited network carries control (addresses.py). A host keeps its default qdisc.

Which congestion control a job's connections use is an attribute of the host's route: neither the job nor a setting of
the machine is involved. It holds for accepted connections, too.
"""

import socket
import struct
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from pyroute2 import NetlinkError

from bench.testbed.addresses import DATA, Addresses
from bench.testbed.impair import UNIMPAIRED, Impairment, impair_arrivals
from bench.testbed.namespace import Namespace, connect
from bench.testbed.ports import limit_egress, limit_ingress
from bench.testbed.routes import Pair, SwitchRoutes, switch_routes
from paceline.failure import Failure
from paceline.flowcore.model.topology import Topology

DATA_IFNAME = "eth0"
CONTROL_IFNAME = "ctl0"
_ONLINK = 4  # the gateway is at the other end of the cable, though no network of the interface contains it
_FIRST_TABLE = 100

# Of a host: a connection starts without what an earlier one to the same host learned, so that runs do not depend on
# their order.
_HOST_SETTINGS = {"ipv4/tcp_no_metrics_save": "1"}
_ECN_SETTINGS = {"ipv4/tcp_ecn": "1"}
# Of a switch: answers of a pair of hosts may come another way than its questions.
_SWITCH_SETTINGS = {"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}


class Testbed:
    """The network of one topology, up until closed. Namespaces by node name, bytes by link name."""

    __test__ = False  # its name looks like a test to pytest

    def __init__(
        self,
        topology: Topology,
        congestion_control: str = "cubic",
        paths: Mapping[Pair, tuple[str, ...]] | None = None,
        impairment: Impairment = UNIMPAIRED,
        bundle_bytes: int | None = None,
    ) -> None:
        """`bundle_bytes` limits the bundles hosts send (ports.py); None leaves the kernel its own."""
        self.topology = topology
        self.addresses = Addresses(topology)
        self._counters: dict[str, tuple[str, int, str]] = {}  # link -> node, interface number, which counter
        self._single_packets, self._bundle_bytes = impairment.one_by_one, bundle_bytes
        if not has_congestion_control(congestion_control):
            raise Failure(f"this kernel has no {congestion_control} (sudo modprobe tcp_{congestion_control})")
        try:
            self._build(topology, congestion_control, paths or {}, impairment)
        except NetlinkError as error:
            raise Failure(f"the kernel refuses to make the network: {error.args[-1]}") from error
        except struct.error as error:  # a number that does not fit the kernel's field
            raise Failure("a link is too slow or too fast to be emulated") from error

    def _build(
        self,
        topology: Topology,
        congestion_control: str,
        paths: Mapping[Pair, tuple[str, ...]],
        impairment: Impairment,
    ) -> None:
        with ExitStack() as undo:
            self.nodes = {node: undo.enter_context(Namespace(node)) for node in (*topology.hosts, *topology.switches)}
            self._settings(topology.hosts, _HOST_SETTINGS | (_ECN_SETTINGS if impairment.marks else {}))
            self._settings(topology.switches, _SWITCH_SETTINGS)
            self._cables()
            for host in topology.hosts:
                self._host_route(host, congestion_control)
                impair_arrivals(self.nodes[host], self.nodes[host].index_of(DATA_IFNAME), impairment)
            for switch, routes in switch_routes(topology, paths).items():
                self._switch_routes(switch, routes)
            self._control_network(undo)
            self._undo = undo.pop_all()

    def __enter__(self) -> "Testbed":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._undo.close()

    def link_bytes(self) -> dict[str, int]:
        """What each link has carried since the start, as the interfaces counted it."""
        return {
            link: int(self.nodes[node].netlink.get_links(index)[0].get_attr("IFLA_STATS64")[counter])
            for link, (node, index, counter) in self._counters.items()
        }

    def _settings(self, nodes: Iterable[str], settings: Mapping[str, str]) -> None:
        for node in nodes:
            with self.nodes[node].enter():  # /proc/sys/net shows the reader's namespace
                for name, value in settings.items():
                    (Path("/proc/sys/net") / name).write_text(value, encoding="ascii")

    def _cables(self) -> None:
        bundles = {"gso_max_segs": 1} if self._single_packets else {}
        if self._bundle_bytes is not None:
            bundles["gso_max_size"] = self._bundle_bytes
        for child, parents in self.topology.parents.items():
            for parent in parents:
                self._cable(child, parent, bundles)

    def _cable(self, child: str, parent: str, bundles: Mapping[str, int]) -> None:
        up, down = self.topology.links[f"{child}->{parent}"], self.topology.links[f"{parent}->{child}"]
        is_host = child in self.addresses.data
        below, above = self.nodes[child], self.nodes[parent]
        below_ifname = DATA_IFNAME if is_host else parent
        child_port, parent_port = connect(below, below_ifname, above, child, attributes=bundles)
        limit_egress(above, parent_port, down.capacity_bps)
        self._counters[down.name] = (parent, parent_port, "tx_bytes")
        self._counters[up.name] = (parent, parent_port, "rx_bytes")
        above.netlink.addr("add", index=parent_port, address=str(self.addresses.gateway[parent]), prefixlen=32)
        if is_host:
            limit_ingress(above, parent_port, f"line-{child}", up.capacity_bps)
            below.netlink.addr("add", index=child_port, address=str(self.addresses.data[child]), prefixlen=32)
        else:
            limit_egress(below, child_port, up.capacity_bps)
            below.netlink.addr("add", index=child_port, address=str(self.addresses.gateway[child]), prefixlen=32)

    def _host_route(self, host: str, congestion_control: str) -> None:
        namespace = self.nodes[host]
        namespace.netlink.route(
            "add",
            dst=str(DATA),
            gateway=str(self.addresses.gateway[self.topology.switch_of[host]]),
            oif=namespace.index_of(DATA_IFNAME),
            flags=_ONLINK,
            prefsrc=str(self.addresses.data[host]),
            metrics={"cc_algo": congestion_control},
        )

    def _switch_routes(self, switch: str, routes: SwitchRoutes) -> None:
        netlink, index_of = self.nodes[switch].netlink, self.nodes[switch].index_of
        address, gateway = self.addresses.data, self.addresses.gateway
        for host, child in routes.down.items():
            way = {"scope": 253} if child == host else {"gateway": str(gateway[child]), "flags": _ONLINK}
            netlink.route("add", dst=f"{address[host]}/32", oif=index_of(child), **way)
        for number, parent in enumerate(routes.up):
            default = {"dst": str(DATA), "gateway": str(gateway[parent]), "oif": index_of(parent), "flags": _ONLINK}
            netlink.route("add", table=_FIRST_TABLE + number, **default)
            if number == 0:
                netlink.route("add", **default)
        for (source, target), parent in routes.pinned.items():
            table = _FIRST_TABLE + routes.up.index(parent)
            netlink.rule("add", src=str(address[source]), src_len=32, dst=str(address[target]), dst_len=32,
                         table=table, priority=table)  # fmt: skip

    def _control_network(self, undo: ExitStack) -> None:
        """Every node on one bridge."""
        middle = undo.enter_context(Namespace("control"))
        middle.netlink.link("add", kind="bridge", ifname="bridge")
        bridge = middle.index_of("bridge")
        middle.netlink.link("set", index=bridge, state="up")
        for node, address in self.addresses.control.items():
            _, port = connect(self.nodes[node], CONTROL_IFNAME, middle, node, (address, None))
            middle.netlink.link("set", index=port, master=bridge)


def lacks_congestion_control(name: str) -> str | None:
    """Why the kernel has none of this name, where it has not."""
    return None if has_congestion_control(name) else f"this kernel has not loaded {name} (sudo modprobe tcp_{name})"


def has_congestion_control(name: str) -> bool:
    """Asking loads its module, where this process may."""
    with socket.socket() as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except FileNotFoundError:
            return False
        except PermissionError:  # the kernel has it, for root only
            return True
    return True
