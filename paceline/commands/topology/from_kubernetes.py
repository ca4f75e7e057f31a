"""A cluster's nodes as `kubectl get nodes -o json` prints them: racks by label, addresses of nodes and of their pods.

A pod has an address of its node's podCIDR, where the network plugin has the node hand them out; the file then has that
network, so that a job in a pod is known as its node's.
"""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from paceline.commands.arguments import CommandError
from paceline.commands.topology.found import FoundCluster, FoundNic, FoundSwitch, need_gbps

# From the nearest switch upward; the first that all nodes have.
USUAL = (
    ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"),
    ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2",
     "topology.k8s.aws/network-node-layer-1"),
    ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
    ("topology.kubernetes.io/rack",),
    ("topology.kubernetes.io/zone",),
)  # fmt: skip
USED_ADDRESSES = ("InternalIP", "ExternalIP")


def read(text: str, source: str, gbps: float | None, labels: list[str] | None) -> FoundCluster:
    try:
        items = json.loads(text)["items"]
        nodes = {str(item["metadata"]["name"]): item for item in items}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CommandError(f"{source}: found no items with names, expected kubectl get nodes -o json") from None
    if not nodes:
        raise CommandError(f"{source}: found no node")
    rate = need_gbps(gbps, source)
    chosen = tuple(labels) if labels else _usual(nodes, source)
    found = FoundCluster()
    for name, item in nodes.items():
        way = [_named(_label(item, key, name, source)) for key in chosen]
        found.add_nic(name, FoundNic(way[0], rate, _addresses(item) or [name]))
        for below, above in pairwise(way):
            parents = found.switches.setdefault(below, FoundSwitch()).parents
            if parents and parents != [above]:
                raise CommandError(f"{source}: found {below} below {parents[0]} and {above}, expected one of them")
            parents[:] = [above]
    return found


def _usual(nodes: Mapping[str, Any], source: str) -> tuple[str, ...]:
    for keys in USUAL:
        there = [key for key in keys if all(key in _labels(item) for item in nodes.values())]
        if there and there[0] == keys[0]:
            return tuple(there)
    raise CommandError(f"{source}: found no label of racks that all nodes have: --label KEY")


def _label(item: Mapping[str, Any], key: str, name: str, source: str) -> str:
    value = _labels(item).get(key)
    if not isinstance(value, str) or not value:
        raise CommandError(f"{source}: found no label {key} on node {name}, expected one on every node")
    return value


def _labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    found = item.get("metadata", {}).get("labels")
    return found if isinstance(found, dict) else {}


def _addresses(item: Mapping[str, Any]) -> list[str]:
    said = item.get("status", {}).get("addresses") or []
    own = [str(one.get("address")) for one in said if isinstance(one, dict) and one.get("type") in USED_ADDRESSES]
    spec = item.get("spec", {})
    pods = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    return list(dict.fromkeys([*own, *map(str, pods)]))


def _named(value: str) -> str:
    """A switch's name: of a label's value what such a name may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", value)
