"""A scenario of the jobs that hosts have watched.

    ring      flows that lead from host to host in a circle; a circle with one host unheard of is closed
    ps        pushes and pulls between workers and servers
    other     flows of any other shape: taken for a ring of the same hosts that sends as much per host, and said so

The exchange of a job is as long as it really is alone: its bytes are those on the wire, times (T⁰ − c) / v with T⁰ of
flowcore/demand/slowdown.py. Workers compute as long as the slowest of them: the exchange waits for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paceline.flowcore.demand.slowdown import alone_ns, exchange_alone_ns
from paceline.flowcore.demand.timing import IterationTimes
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.job_names import readable
from paceline.flowcore.model.patterns import FlowId, Role, flows_of
from paceline.flowcore.model.scenario import MAX_OVERLAP, JobSpec, Pattern, SlotsSpec
from paceline.flowcore.model.topology import Topology
from paceline.whatif.record import HostRecord, WatchedJob

LEAST_JITTER = 0.002  # less is the look's


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    spec: JobSpec
    times: IterationTimes  # over its hosts
    alone_s: float  # T⁰
    paced: bool  # while it was watched
    hosts_seen: int
    approximated: bool  # its flows have another shape than any pattern

    @property
    def iteration_s(self) -> float:
        return self.times.iteration_ns / 1e9


@dataclass(frozen=True, slots=True)
class MeasuredCluster:
    topology: Topology
    slots: SlotsSpec
    jobs: tuple[MeasuredJob, ...]
    left_out: Mapping[str, str]  # why a job is not among them


def measured_cluster(records: Sequence[HostRecord]) -> MeasuredCluster:
    """Of two records of one host the newer counts."""
    newest = {record.host: record for record in sorted(records, key=lambda record: record.time_s)}
    first, *others = newest.values()
    for other in others:
        if other.topology.fingerprint != first.topology.fingerprint:
            raise InputError(other.host, "the topology", "another one", f"the one that {first.host} has")
    seen: dict[str, list[tuple[str, WatchedJob]]] = {}
    for record in newest.values():
        for watched in record.jobs:
            seen.setdefault(watched.name, []).append((record.host, watched))
    jobs: list[MeasuredJob] = []
    left_out: dict[str, str] = {}
    names = readable(seen)
    for job, parts in sorted(seen.items()):
        found = _measured(names[job], parts, first.topology)
        if isinstance(found, str):
            left_out[names[job]] = found
        else:
            jobs.append(found)
    return MeasuredCluster(first.topology, first.slots, tuple(jobs), left_out)


def _measured(name: str, parts: Sequence[tuple[str, WatchedJob]], topology: Topology) -> MeasuredJob | str:
    """Or why not."""
    sizes = {flow: size for _, job in parts for flow, size in job.sizes.items() if not flow.local}
    if not sizes:
        return "it sends to no other host, or its size is not learned yet"
    times = _over_hosts([job for _, job in parts])
    if times is None or times.computing_ns is None:
        return "it was not watched for long enough, or on none of its workers' hosts"
    spec, approximated = _spec(name, sizes, times)
    exchange_ns = exchange_alone_ns({flow.flow: flow.size_bytes for flow in flows_of(spec)}, topology)
    found_ns = alone_ns(times, exchange_ns)
    if not found_ns or not exchange_ns:
        return "its iterations take no time"
    longer = max(1.0, (found_ns - times.computing_ns) / exchange_ns) if exchange_ns >= times.beside_ns else 1.0
    spec = replace(spec, model_mb=longer * spec.model_mb)
    paced = any(job.paced for _, job in parts)
    return MeasuredJob(spec, times, found_ns / 1e9, paced, len(parts), approximated)


def _over_hosts(parts: Iterable[WatchedJob]) -> IterationTimes | None:
    """A host that only serves does not compute."""
    working = [job for job in parts if any(flow.role is not Role.PULL for flow in job.sizes)]
    all_times = [job.times for job in working if job.times is not None]
    known = [times for times in all_times if times.computing_ns is not None]
    if not known:
        return None
    slowest = max(known, key=lambda times: times.computing_ns or 0.0)
    return replace(
        slowest,
        iterations=min(times.iterations for times in all_times),
        iteration_ns=fmean(times.iteration_ns for times in all_times),
        fastest_ns=fmean(times.fastest_ns for times in all_times),
        beside_ns=max(times.beside_ns for times in known),
        bursts=max(times.bursts for times in known),
    )


def _spec(name: str, sizes: Mapping[FlowId, float], times: IterationTimes) -> tuple[JobSpec, bool]:
    """And whether it is another shape than the job's."""
    computing_s, beside_s = (times.computing_ns or 0.0) / 1e9, times.beside_ns / 1e9
    whole_s = computing_s + beside_s
    pushes = {flow: size for flow, size in sizes.items() if flow.role is Role.PUSH}
    pulls = {flow: size for flow, size in sizes.items() if flow.role is Role.PULL}
    workers: tuple[str, ...]
    servers: tuple[str, ...] = ()
    approximated = False
    if pushes or pulls:
        pattern = Pattern.PS
        workers = tuple(sorted({flow.source for flow in pushes} | {flow.target for flow in pulls}))
        servers = tuple(sorted({flow.target for flow in pushes} | {flow.source for flow in pulls}))
        model_mb = fmean((pushes or pulls).values()) * len(servers) / 1e6
    else:
        pattern = Pattern.ALLREDUCE
        ring = _circle({flow.source: flow.target for flow in sizes}) if _one_each(sizes) else None
        approximated = ring is None
        workers = ring or tuple(sorted({end for flow in sizes for end in flow[1:3]}))
        sent_bytes = sum(sizes.values()) / len({flow.source for flow in sizes})
        model_mb = sent_bytes * len(workers) / (2 * (len(workers) - 1)) / 1e6
    jitter = times.jitter if times.jitter >= LEAST_JITTER else 0.0
    spec = JobSpec(
        name, pattern, workers, servers, model_mb, whole_s, None, 0.0, min(jitter, 0.5),
        overlap=min(MAX_OVERLAP, beside_s / whole_s) if whole_s else 0.0, bursts=times.bursts,
    )  # fmt: skip
    return spec, approximated


def _one_each(sizes: Mapping[FlowId, float]) -> bool:
    """Every host sends to one host and hears from one."""
    return len({flow.source for flow in sizes}) == len({flow.target for flow in sizes}) == len(sizes)


def _circle(following: Mapping[str, str]) -> tuple[str, ...] | None:
    """The hosts in order; None: they are in more than one circle."""
    heads = following.keys() - set(following.values())
    if len(heads) > 1:
        return None
    host = min(heads or following)
    found = [host]
    while (host := following.get(host, found[0])) != found[0]:
        found.append(host)
    return tuple(found) if {*found} == {*following, *following.values()} else None
