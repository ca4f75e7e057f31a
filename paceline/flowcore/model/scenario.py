"""A scenario file, version 1: a cluster and its jobs, from TOML text to frozen dataclasses.

Law: a scenario that parsed is valid; text that is not a valid scenario raises ScenarioError and nothing else,
and its message is one line: file, key, what was found, what was expected.

The tables below describe the format (see fields.py). What one field cannot know (a ring needs two workers, a name
is taken) is checked once its table is read.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from paceline.flowcore.model.fields import (
    Field,
    InputError,
    Reader,
    Value,
    integer,
    list_of,
    number_from,
    number_that,
    one_of,
    printable_name,
    read_table,
    refuse_repeats,
)
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, clos, star, tree
from paceline.flowcore.model.units import ns_from_ms, ns_from_s
from paceline.flowcore.model.weights import CLASSES, LEAST, MOST

# A thousand jobs take about 200 kB. The command refuses a larger file before parsing, so that a wrong path (a
# checkpoint, a device) costs a message and not minutes of parsing.
MAX_SCENARIO_BYTES = 1_000_000

# A hundred times the papers' cluster. Building is linear in it: a slip of a digit should not eat the memory.
MAX_HOSTS = 100_000

# No quantity is larger in its own unit: 30 years in s, a petabyte in MB, an exabit per second in Gbit/s.
# As nanoseconds it is 10^18, which still fits the signed 64 bits of a kernel or protobuf field.
LARGEST = 1e9

# A finer burst pattern is a constant load at this time scale, and zero would never let time pass.
MIN_BURST_PERIOD_S = 1e-3

MIN_SLOT_MS = 1.0  # shorter than a control message takes; nothing could be agreed on
MIN_DURATION_S = 1e-3
MAX_SLOT_MS = 10_000.0  # longer than any iteration worth pacing
MIN_GBPS = 1e-6  # 1 kbit/s: less is a slip of the unit, and near zero transfer times overflow

MAX_OVERLAP = 0.9  # some computing comes before every burst
MAX_BURSTS = 1000

DEFAULT_SLOT_MS = 60.0  # the paper's t̂
DEFAULT_HORIZON = 10  # the paper's K


class Pattern(StrEnum):
    ALLREDUCE = "allreduce"
    PS = "ps"


class Backend(StrEnum):
    """What a job of the testbed communicates with."""

    GLOO = "gloo"
    NCCL = "nccl"


@dataclass(frozen=True, slots=True)
class SlotsSpec:
    length_ms: float = DEFAULT_SLOT_MS
    horizon: int = DEFAULT_HORIZON

    def clock(self, epoch_ns: int = 0) -> SlotClock:
        return SlotClock(ns_from_ms(self.length_ms), self.horizon, epoch_ns)


@dataclass(frozen=True, slots=True)
class JobSpec:
    name: str  # unique in the scenario
    pattern: Pattern
    workers: tuple[str, ...]  # hosts, in ring order
    servers: tuple[str, ...]  # hosts; empty for all-reduce; a server may also be a worker
    model_mb: float
    compute_s: float  # mean compute time of one iteration
    iterations: int | None  # None: until the scenario's duration
    start_s: float
    jitter: float  # standard deviation of the compute time / its mean
    overlap: float = 0.0  # the part of the computing that runs while its burst is already being sent
    bursts: int = 1  # per iteration, equal; each has its part of the computing before it and beside it
    backend: Backend = Backend.GLOO  # on the testbed
    weight: float = 1.0  # how much it counts beside others (weights.py)

    @property
    def plain(self) -> bool:
        """It computes, then sends, once per iteration."""
        return self.bursts == 1 and not self.overlap

    def alone_s(self, exchange_s: float) -> float:
        """T⁰ = (1 − f)·c + max(f·c, v) of an iteration whose exchanges take v together."""
        return (1.0 - self.overlap) * self.compute_s + max(self.overlap * self.compute_s, exchange_s)


@dataclass(frozen=True, slots=True)
class CrossTraffic:
    """Bursts that belong to no job and are not limited, from one host to another."""

    source: str
    target: str
    every_s: float
    lasts_s: tuple[float, float]  # shortest and longest burst
    gbps: float


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    seed: int
    duration_s: float | None  # None: until every job has done its iterations
    slots: SlotsSpec
    topology: Topology
    jobs: tuple[JobSpec, ...]
    cross_traffic: tuple[CrossTraffic, ...]


ScenarioError = InputError  # the file is wrong; str() says where and why in one printable line


def parse_scenario(text: str, source: str) -> Scenario:
    """The scenario written in `text`; `source` names the file in errors."""
    try:
        root = Value(source, "", tomllib.loads(text))
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of over 4300 digits
        raise ScenarioError(source, "the file", f"no TOML ({error})", "a scenario in TOML") from None
    _version(root.at("version"))  # before the other keys: another version may have different ones
    top = read_table(root, _TOP)
    jobs = list_of(_job(top["topology"]), "[[job]] tables")(top["job"])
    if not jobs:
        raise top["job"].wrong("at least one job")
    refuse_repeats((table.at("name") for table in top["job"].items()), "a name no other job has")
    for number, job in enumerate(jobs):
        if job.iterations is None and top["duration_s"] is None:
            raise root.at("duration_s").wrong(f"a duration, because job[{number}] has no iterations")
        if top["duration_s"] is not None and job.start_s >= top["duration_s"]:
            start = top["job"].items()[number].at("start_s")
            raise start.wrong(f"a start before duration_s, {top['duration_s']:g}")
    bursts = list_of(_cross_traffic(top["topology"]), "[[cross_traffic]] tables")
    return Scenario(
        name=top["name"],
        seed=top["seed"],
        duration_s=top["duration_s"],
        slots=top["slots"],
        topology=top["topology"],
        jobs=jobs,
        cross_traffic=() if top["cross_traffic"].missing else bursts(top["cross_traffic"]),
    )


_POSITIVE = number_that(f"a number above 0, at most {LARGEST:g}", lambda number: 0 < number <= LARGEST)
_NOT_NEGATIVE = number_from(0, LARGEST)
_GBPS = number_from(MIN_GBPS, LARGEST)
_FRACTION = number_that("a number from 0 to below 1", lambda number: 0 <= number < 1)

# ---- The tables of version 1 ----


def _version(value: Value) -> None:
    if type(value.found) is not int or value.found != 1:  # `true` and 1.0 equal 1 too
        raise value.wrong("1, the only version there is")


def slots_table(value: Value) -> SlotsSpec:
    fields = {
        "length_ms": Field(number_from(MIN_SLOT_MS, MAX_SLOT_MS), DEFAULT_SLOT_MS),
        "horizon": Field(integer(1, 1000), DEFAULT_HORIZON),
    }
    return SlotsSpec(**read_table(value, fields))


@dataclass(frozen=True, slots=True)
class _Kind:
    build: Callable[..., Topology]  # takes the fields by name
    fields: Mapping[str, Field]
    products: Mapping[str, tuple[str, ...]]  # what there may be MAX_HOSTS of: which fields multiply to it


_SIZE = Field(integer(1, MAX_HOSTS))

_KINDS = {
    "star": _Kind(star, {"hosts": _SIZE, "link_gbps": Field(_GBPS)}, {}),
    "tree": _Kind(
        tree,
        {
            "servers_per_tor": _SIZE,
            "tors_per_edge": _SIZE,
            "edges": _SIZE,
            "link_gbps": Field(list_of(_GBPS, "rates: host–ToR, ToR–edge, edge–aggregation", exactly=3)),
        },
        {"hosts": ("servers_per_tor", "tors_per_edge", "edges")},
    ),
    "clos": _Kind(
        clos,
        {
            "servers_per_tor": _SIZE,
            "tors": _SIZE,
            "spines": _SIZE,
            "link_gbps": Field(list_of(_GBPS, "rates: host–ToR, ToR–spine", exactly=2)),
        },
        {"hosts": ("servers_per_tor", "tors"), "cables between ToRs and spines": ("tors", "spines")},
    ),
}


def topology_table(value: Value) -> Topology:
    choose = one_of(*_KINDS)
    kind = _KINDS[choose(value.at("kind"))]
    arguments = read_table(value, {"kind": Field(choose), **kind.fields})
    del arguments["kind"]
    for what, factors in kind.products.items():
        count = math.prod(arguments[factor] for factor in factors)
        if count > MAX_HOSTS:
            found = f"{' × '.join(factors)} = {count}"
            raise ScenarioError(value.source, value.key, found, f"at most {MAX_HOSTS} {what}")
    return kind.build(**arguments)


def _host(topology: Topology) -> Reader[str]:
    def read(value: Value) -> str:
        if isinstance(value.found, str) and value.found in topology.switch_of:
            return value.found
        raise value.wrong(f"a host of the topology, {topology.hosts[0]} to {topology.hosts[-1]}")

    return read


def _job(topology: Topology) -> Reader[JobSpec]:
    hosts = list_of(_host(topology), "hosts", distinct=True)
    fields = {
        "name": Field(printable_name),
        "pattern": Field(lambda value: Pattern(one_of(*Pattern)(value))),
        "workers": Field(hosts),
        "servers": Field(hosts, ()),
        "model_mb": Field(_POSITIVE),
        "compute_s": Field(_NOT_NEGATIVE),
        "iterations": Field(integer(1, int(LARGEST)), None),
        "start_s": Field(_NOT_NEGATIVE, 0.0),
        "jitter": Field(_FRACTION, 0.0),
        "overlap": Field(number_from(0.0, MAX_OVERLAP), 0.0),
        "bursts": Field(integer(1, MAX_BURSTS), 1),
        "backend": Field(lambda value: Backend(one_of(*Backend)(value)), Backend.GLOO),
        "weight": Field(number_from(LEAST, MOST), 1.0),
        "class": Field(one_of(*CLASSES), None),
    }

    def read(value: Value) -> JobSpec:
        found = read_table(value, fields)
        if (of_class := found.pop("class")) is not None:
            if not value.at("weight").missing:
                raise value.at("weight").wrong("no weight beside a class, which is one")
            found["weight"] = CLASSES[of_class]
        job = JobSpec(**found)
        ring = job.pattern is Pattern.ALLREDUCE
        if len(job.workers) < (2 if ring else 1):
            raise value.at("workers").wrong("two or more hosts for a ring" if ring else "one or more hosts")
        if ring and job.servers:
            raise value.at("servers").wrong("no servers: only a ps job has them")
        if not ring and not job.servers:
            raise value.at("servers").wrong("one or more hosts for a ps job")
        if not ring and job.backend is Backend.NCCL:
            raise value.at("backend").wrong('"gloo" for a ps job')
        within_one_host = len({*job.workers, *job.servers}) == 1
        if within_one_host and ns_from_s(job.compute_s) < job.bursts:  # every burst must take time
            raise value.at("compute_s").wrong(f"at least {job.bursts * 1e-9:g} for a job within one host")
        return job

    return read


def _cross_traffic(topology: Topology) -> Reader[CrossTraffic]:
    fields = {
        "from": Field(_host(topology)),
        "to": Field(_host(topology)),
        "every_s": Field(number_from(MIN_BURST_PERIOD_S, LARGEST)),
        "lasts_s": Field(list_of(_POSITIVE, "durations: shortest, longest", exactly=2)),
        "gbps": Field(_GBPS),
    }

    def read(value: Value) -> CrossTraffic:
        burst = read_table(value, fields)
        if burst["from"] == burst["to"]:
            raise value.at("to").wrong('another host than "from"')
        shortest_s, longest_s = burst["lasts_s"]
        if shortest_s > longest_s:
            raise value.at("lasts_s").wrong(f"the shorter first, not {shortest_s:g} before {longest_s:g}")
        return CrossTraffic(burst["from"], burst["to"], burst["every_s"], burst["lasts_s"], burst["gbps"])

    return read


_TOP = {
    "version": Field(_version),
    "name": Field(printable_name),
    "seed": Field(integer(0, 2**63 - 1), 1),
    "duration_s": Field(number_from(MIN_DURATION_S, LARGEST), None),
    "slots": Field(slots_table, SlotsSpec()),
    "topology": Field(topology_table),
    # These two name hosts, so they are read once the topology is known.
    "job": Field(lambda value: value),
    "cross_traffic": Field(lambda value: value),
}
