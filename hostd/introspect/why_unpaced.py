"""Why a job on this host is not paced, or not all of it: every reason that hostd can see, named.

    what the operator said       observing, advising, released, not_listed
    what the host cannot do      no_backend, foreign_qdisc, not_enforced, evades, namespace, invisible
    where its data goes          unknown_peer, own_address, within_host, no_data
    what is known of its bursts  no_iteration, learning, no_rhythm, left_to_tcp
    what it is called            merged, split
    what its user may have       over_quota, bad_numbers

Law: a job that is not paced has at least one reason, in every mode: an operator who only watches learns what would keep
a job from being paced. A job that is paced may have some, too: of one that sends to three hosts and has two known, one
flow is left to TCP. The reason is one of a fixed few, for metrics; the text names addresses, processes and jobs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from hostd.enforce.errors import ErrorKind
from hostd.introspect.host_view import HostView, Launch, script_of
from hostd.kernel.sockets import DataSocket
from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.model.patterns import Role

MOST_NAMED = 5
MOST_COMPARED = 16  # launches of one script: a user may have hundreds of jobs, each compared with all
LATELY_S = 3.0  # an error that lasts comes again every second
UNHEARD_ITERATIONS = 3  # of its own that a flow has sent, while the switch has heard of no byte of what feeds it


class Reason(StrEnum):
    OBSERVING = "observing"
    ADVISING = "advising"
    RELEASED = "released"
    NOT_LISTED = "not_listed"
    NO_BACKEND = "no_backend"
    FOREIGN_QDISC = "foreign_qdisc"
    NOT_ENFORCED = "not_enforced"
    EVADES = "evades"
    NAMESPACE = "namespace"
    INVISIBLE = "invisible"
    UNKNOWN_PEER = "unknown_peer"
    OWN_ADDRESS = "own_address"
    WITHIN_HOST = "within_host"
    NO_DATA = "no_data"
    NO_ITERATION = "no_iteration"
    LEARNING = "learning"
    NO_RHYTHM = "no_rhythm"
    LEFT_TO_TCP = "left_to_tcp"
    MERGED = "merged"
    SPLIT = "split"
    OVER_QUOTA = "over_quota"
    BAD_NUMBERS = "bad_numbers"


# What passes by itself, or was an operator's decision: nothing to be warned of.
EXPECTED = {
    Reason.OBSERVING,
    Reason.ADVISING,
    Reason.RELEASED,
    Reason.NOT_LISTED,
    Reason.NO_DATA,
    Reason.NO_ITERATION,
    Reason.LEARNING,
    Reason.NO_RHYTHM,
    Reason.LEFT_TO_TCP,
    Reason.WITHIN_HOST,
}


class Unpaced(NamedTuple):
    reason: Reason
    why: str


def why_unpaced(view: HostView, job: JobTracker) -> list[Unpaced]:
    """What keeps the job, or a part of it, from being paced; empty: nothing does."""
    sockets = [one for process in job.processes.values() for one in process.sockets.sockets]
    found = [
        *_as_told(view, job.demand.job),
        *_by_the_host(view, job, sockets),
        *_where_it_sends(view, sockets),
        *_by_its_names(view, job),
    ]
    if job.demand.job not in view.agent.jobs:
        found += _not_known_enough(view, job, {one.reason for one in found})
    return found


def _as_told(view: HostView, job: str) -> Iterator[Unpaced]:
    match view.mode:
        case "observe":
            yield Unpaced(Reason.OBSERVING, "nothing is decided in mode observe")
        case "advise":
            yield Unpaced(Reason.ADVISING, "rates are decided on, but none is set in mode advise")
    if view.listed is not None and not any(view.users.means(text, job) for text in view.listed):
        listed = _some(view.listed) or "none"
        yield Unpaced(Reason.NOT_LISTED, f"it is not among the jobs to be paced (jobs, in the configuration): {listed}")
    if (all_of_it := view.released.get(None)) is not None:
        yield Unpaced(Reason.RELEASED, f"every limit of this host was lifted: {all_of_it}")
    if (this_one := view.released.get(job)) is not None:
        yield Unpaced(Reason.RELEASED, f"its limits were lifted: {this_one}")
    if job in view.over_quota:
        yield Unpaced(Reason.OVER_QUOTA, f"{view.over_quota[job]} (quotas, in the configuration)")
    if job in view.bad_numbers:
        yield Unpaced(Reason.BAD_NUMBERS, f"{view.bad_numbers[job]}: no switch would take that")


def _by_the_host(view: HostView, job: JobTracker, sockets: Iterable[DataSocket]) -> Iterator[Unpaced]:
    enforcer = view.enforcer
    if view.mode == "enforce" and enforcer.backend.name == "observe" and None not in view.released:
        yield Unpaced(Reason.NO_BACKEND, f"nothing can be enforced on this host: {enforcer.why_none}")
    foreign = sorted({one.pid for one in sockets if one.namespace != view.namespace})
    if foreign and enforcer.choice(job.demand.job).backend == "htb":
        why = f"{_processes(foreign)} a network namespace of their own, where htb reaches no socket"
        yield Unpaced(Reason.NAMESPACE, f'{why}; backend = "pacing" does')
    if private := sorted({one.pid for one in sockets if one.private}):
        why = f"{_processes(private)} a network namespace that a user has made"
        yield Unpaced(Reason.NAMESPACE, f"{why}: what is sent there need not leave the host")
    for kind, why in sorted(enforcer.errors.lately(job.demand.job, LATELY_S).items()):
        if kind is ErrorKind.FOREIGN_QDISC:
            yield Unpaced(Reason.FOREIGN_QDISC, why)
        elif kind is ErrorKind.EVADED:
            yield Unpaced(Reason.EVADES, why)
        elif kind not in (ErrorKind.NAMESPACE, ErrorKind.GONE):  # gone: sockets that are closed, and no loss
            yield Unpaced(Reason.NOT_ENFORCED, why)
    refused = {pid: process.sockets.refused for pid, process in job.processes.items()}
    if unseen := [f"process {pid} cannot be looked into: {why}" for pid, why in sorted(refused.items()) if why]:
        yield Unpaced(Reason.INVISIBLE, unseen[0])


def _where_it_sends(view: HostView, sockets: list[DataSocket]) -> Iterator[Unpaced]:
    outward = [one for one in sockets if not _stays(one)]
    if unknown := _sorted({one.remote for one in outward if one.remote not in view.host_of}):
        yield Unpaced(Reason.UNKNOWN_PEER, f"it sends to {_some(unknown)}, of no host in [addresses]")
    mistaken = _sorted({one.remote for one in outward if view.host_of.get(one.remote) == view.name})
    if mistaken:
        why = f"it sends to {_some(mistaken)}, which [addresses] has as {view.name}, this host"
        yield Unpaced(Reason.UNKNOWN_PEER, why)
    local = _sorted({one.local for one in outward if view.host_of.get(one.local) != view.name})
    if local:
        others = [f"{address} is {view.host_of[address]}'s there" for address in local if address in view.host_of]
        why = f"it sends from {_some(local)}, which [addresses] does not have as {view.name}"
        why += f" ({'; '.join(others[:MOST_NAMED])})" if others else ""
        yield Unpaced(Reason.OWN_ADDRESS, f"{why}: other hosts cannot tell that its bytes come from here")
    if sockets and not outward:
        yield Unpaced(Reason.WITHIN_HOST, "its processes send to each other, and to no other host")


def _by_its_names(view: HostView, job: JobTracker) -> Iterator[Unpaced]:
    views = [process.view for process in job.processes.values() if process.view is not None]
    ranks = Counter((one.snapshot.role, one.snapshot.global_rank) for one in views if one.snapshot.global_rank >= 0)
    twice = sorted({rank for (_, rank), count in ranks.items() if count > 1})
    sizes = sorted({one.snapshot.world_size for one in views if one.snapshot.world_size > 0})
    if twice:
        why = f"several processes have rank {', '.join(map(str, twice[:MOST_NAMED]))}"
        yield Unpaced(Reason.MERGED, f"{why}: two jobs have this name (paceline run --job tells them apart)")
    elif len(sizes) > 1:
        why = f"its processes say that it has {' and '.join(map(str, sizes))} members"
        yield Unpaced(Reason.MERGED, f"{why}: two jobs have this name (paceline run --job tells them apart)")
    name, names = job.demand.job, view.names
    others = view.launches.get(script_of(name) or "", [])[:MOST_COMPARED]
    own = Launch.of(job)
    if siblings := [names.shown(one.job) for one in others if one.job != name and own.may_be_part_of(one)]:
        yield Unpaced(Reason.SPLIT, f"{_some(siblings)} on this host looks like a part of it: give both one --job name")
    joined = view.agent.jobs.get(name)
    for flow in joined.flows if joined is not None else ():
        if _other_end_is_unheard_of(view, flow):
            feeders = _some(map(names.shown_flow, flow.spec.upstream))
            why = f"the switch hears nothing of {feeders}: the job has another name there, or is not paced"
            yield Unpaced(Reason.SPLIT, why)
            break


def _other_end_is_unheard_of(view: HostView, flow: FlowState) -> bool:
    """A ring's flow forwards what comes in: where its bytes go round for iterations, the switch must hear of those."""
    if flow.id.role is not Role.RING or not flow.spec.upstream or flow.grant is None or view.agent.isolated:
        return False
    return flow.grant.upstream_bytes == 0.0 and flow.volume_bytes >= UNHEARD_ITERATIONS * flow.spec.size_bytes


def _not_known_enough(view: HostView, job: JobTracker, so_far: set[Reason]) -> Iterator[Unpaced]:
    demand, iteration = job.demand, job.facts.iteration if job.facts is not None else 0
    seen = f"after {max(0, view.own_ns - job.seen_ns) / 1e9:.0f} s"
    if demand.left_to_tcp:
        yield Unpaced(Reason.LEFT_TO_TCP, f"it is left to TCP: {demand.left_to_tcp}")
    elif demand.sizes or so_far & {Reason.INVISIBLE, Reason.WITHIN_HOST}:
        if not so_far:
            yield Unpaced(Reason.LEARNING, "it is about to join")
    elif not job.has_sockets and not (job.facts and job.facts.sent_bytes):
        if not so_far & {Reason.UNKNOWN_PEER, Reason.OWN_ADDRESS, Reason.NAMESPACE}:
            yield Unpaced(Reason.NO_DATA, f"{seen} no connection of it has carried data to another host")
    elif job.rhythm is not None:
        yield Unpaced(Reason.NO_RHYTHM, f"{seen} its last bursts are not of one size, and it counts no iterations")
    elif iteration == 0:
        yield Unpaced(Reason.NO_ITERATION, f"{seen} no iteration of it has ended")
    else:
        yield Unpaced(Reason.LEARNING, f"{seen}, {iteration} iterations, none was seen whole, or no two agree in size")


# ---- Text ----


def _stays(one: DataSocket) -> bool:
    """Within this host."""
    return one.remote == one.local or _is_loopback(one.remote)


@lru_cache(1024)
def _is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def _sorted(addresses: Iterable[str]) -> list[str]:
    return sorted(addresses, key=lambda text: (ip_address(text).version, ip_address(text)))


def _some(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:MOST_NAMED]) + (f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else "")


def _processes(pids: list[int]) -> str:
    named = _some(map(str, pids))
    return f"process {named} has" if len(pids) == 1 else f"processes {named} have"
