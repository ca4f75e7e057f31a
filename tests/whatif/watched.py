"""Hosts that have watched jobs, as hostd would answer."""

from collections.abc import Mapping
from typing import Any

from paceline.flowcore.model.plain_topology import plain
from paceline.flowcore.model.topology import Topology, star

MS = 1e6


def flow(source: str, target: str, size_bytes: float, role: str = "ring") -> dict[str, Any]:
    return {"source": source, "target": target, "role": role, "size_bytes": size_bytes}


def job(
    name: str,
    *flows: dict[str, Any],
    iteration_ms: float,
    computing_ms: float | None,
    paced: bool = False,
    **times: Any,
) -> dict[str, Any]:
    found = {
        "iterations": 30, "iteration_ns": iteration_ms * MS, "fastest_ns": 0.98 * iteration_ms * MS,
        "computing_ns": None if computing_ms is None else computing_ms * MS, "beside_ns": 0.0, "bursts": 1,
        "jitter": 0.0,
    }  # fmt: skip
    return {"name": name, "paced": paced, "members": 2, "times": found | times, "flows": list(flows)}


def record(
    host: str, *jobs: Mapping[str, Any], topology: Topology | None = None, time_s: float = 1e9
) -> dict[str, Any]:
    return {
        "version": 1, "host": host, "time_s": time_s, "mode": "observe", "slot_ms": 60.0, "horizon": 10,
        "topology": plain(topology or star(3, 1.0)), "jobs": list(jobs),
    }  # fmt: skip


def pair(name: str, size_bytes: float, iteration_ms: float, computing_ms: float, **more: Any) -> list[dict[str, Any]]:
    """A ring of h0 and h1, as each of them sees it."""
    return [
        job(name, flow(source, target, size_bytes), iteration_ms=iteration_ms, computing_ms=computing_ms, **more)
        for source, target in (("h0", "h1"), ("h1", "h0"))
    ]
