"""The addresses of hosts and switches.

    198.18.0.0/16    data: what jobs use; on a host's eth0, behind the links whose capacity is emulated
    198.19.0.0/16    control: every host and switch, on ctl0; a management network of its own, without limits, so that
                     a burst of gradients does not delay the decision about it (as operators wire it, too)
    169.254.0.0/16   gateways: a switch's own address on its data ports; only routes use it

The first two are set aside for benchmarks (RFC 2544): no name server of the machine is among them, so that a job
which looks up a name is refused at once instead of waiting for an answer (torch does, several times, 3 s each).

A host has one data address, whatever its jobs: an address tells the host, and only that.
"""

from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from paceline.flowcore.model.topology import Topology

DATA = IPv4Network("198.18.0.0/16")
CONTROL = IPv4Network("198.19.0.0/16")
GATEWAYS = IPv4Network("169.254.0.0/16")


class Addresses:
    """The addresses of a topology's nodes; a function of the topology alone."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    @cached_property
    def data(self) -> Mapping[str, IPv4Address]:
        return {host: DATA[number] for number, host in enumerate(self.topology.hosts, start=1)}

    @cached_property
    def control(self) -> Mapping[str, IPv4Interface]:
        numbers = enumerate((*self.topology.hosts, *self.topology.switches), start=1)
        return {node: IPv4Interface((CONTROL[number], CONTROL.prefixlen)) for number, node in numbers}

    @cached_property
    def gateway(self) -> Mapping[str, IPv4Address]:
        # From .1.1 up: the first and last 256 link-local addresses are reserved.
        return {switch: GATEWAYS[number] for number, switch in enumerate(self.topology.switches, start=257)}
