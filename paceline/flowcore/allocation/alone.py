"""How long an exchange takes with no other job on its links: as long as its busiest link is busy.

    alone = max over l of  Σ_{f crosses l} G_f / u_l

A switch reckons with the links whose table it keeps, a host with its NIC until a switch knows better, and a simulator
of all switches at once with all links.
"""

from collections.abc import Iterable, Mapping

from paceline.flowcore.model.units import transfer_ns


def alone_ns(flows: Iterable[tuple[float, Iterable[str]]], capacity_bps: Mapping[str, float]) -> int:
    """Of flows with so many bytes and such a path."""
    bytes_on: dict[str, float] = {}
    for size_bytes, links in flows:
        for link in links:
            bytes_on[link] = bytes_on.get(link, 0.0) + size_bytes
    return max((transfer_ns(size, capacity_bps[link]) for link, size in bytes_on.items()), default=0)
