"""What one host has watched: the answer of hostd to "profiles", or a file with it (`paceline whatif --save`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.flowcore.demand.timing import IterationTimes
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.plain_topology import from_plain
from paceline.flowcore.model.scenario import MAX_BURSTS, SlotsSpec
from paceline.flowcore.model.topology import Topology

VERSION = 1
MAX_BYTES = 100_000_000
LARGEST = 1e18  # bytes or nanoseconds


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """On one host."""

    name: str
    paced: bool  # while it was watched
    members: int  # ranks in all; 0: not known
    times: IterationTimes | None
    sizes: Mapping[FlowId, float]  # what each of its flows sends in an iteration


@dataclass(frozen=True, slots=True)
class HostRecord:
    host: str
    time_s: float  # since 1970
    slots: SlotsSpec
    topology: Topology
    jobs: tuple[WatchedJob, ...]


def read_record(path: Path) -> HostRecord:
    with path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _wrong(str(path), "no JSON") from None
    return parse_record(found, str(path))


def parse_record(found: Any, source: str) -> HostRecord:
    """Raises InputError."""
    try:
        if found["version"] != VERSION:
            raise _wrong(source, f"version {found['version']!r}")
        topology = from_plain(found["topology"])
        record = HostRecord(
            str(found["host"]),
            float(found["time_s"]),
            SlotsSpec(float(found["slot_ms"]), int(found["horizon"])),
            topology,
            tuple(_job(job) for job in found["jobs"]),
        )
        known = set(topology.hosts)
        if not {record.host, *(end for job in record.jobs for flow in job.sizes for end in flow[1:3])} <= known:
            raise ValueError("a host that is not in the topology")
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _wrong(source, f"none ({type(error).__name__}: {error})") from None
    return record


def _job(found: Mapping[str, Any]) -> WatchedJob:
    name = str(found["name"])
    sizes = {
        FlowId(name, str(flow["source"]), str(flow["target"]), Role(flow["role"])): _number(flow["size_bytes"])
        for flow in found["flows"]
    }
    return WatchedJob(name, bool(found["paced"]), int(found["members"]), _times(found["times"]), sizes)


def _times(found: Mapping[str, Any] | None) -> IterationTimes | None:
    if found is None:
        return None
    computing_ns = found["computing_ns"]
    return IterationTimes(
        int(found["iterations"]),
        _number(found["iteration_ns"]),
        _number(found["fastest_ns"]),
        None if computing_ns is None else _number(computing_ns),
        _number(found["beside_ns"]),
        min(MAX_BURSTS, max(1, int(found["bursts"]))),
        _number(found["jitter"]),
    )


def _number(found: Any) -> float:
    number = float(found)
    if not 0.0 <= number <= LARGEST:
        raise ValueError(f"{number} is no size or time")
    return number


def _wrong(source: str, found: str) -> InputError:
    expected = f"what a host has watched, version {VERSION}, as `paceline whatif --save` writes it"
    return InputError(source, "the record", found, expected)
