"""Which flows a job has on this host, and which flows feed which.

    ring     a flow out of a host forwards what comes in: fed by the ring's flows into this host, a segment behind
    push     a worker's; it waits for no flow, and feeds the server's pull back to the worker
    pull     a server's; it gives back what was pushed, and waits for all pushes to the server

Nothing is asked of the job's owner: the hosts that a job sends to and receives from are in its sockets. Of a ring's
later members a host knows nothing, and says nothing. Pure.
"""

from collections.abc import Iterable, Mapping

from paceline.flowcore.demand.facts import Ends
from paceline.flowcore.messages.events import JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role, arriving
from paceline.flowcore.model.units import UNLIMITED


def flow_id(job: str, host: str, ends: Ends) -> FlowId:
    role, target = ends
    return FlowId(job, host, target, role)


def job_joined(
    job: str,
    host: str,
    sizes: Mapping[Ends, float],
    received_bytes: Mapping[Ends, float],
    members: int,
    weight: float = 1.0,
    iterations: int = 0,
) -> JobJoined:
    """Flows of these sizes in an iteration, in a job that has received so much from each host so far, and does so many
    iterations from now on (0: nobody knows)."""
    sources = [ends for ends, size in received_bytes.items() if size > 0]
    specs = tuple(_spec(flow_id(job, host, ends), sizes[ends], sources, members) for ends in sorted(sizes))
    downstream = tuple((spec.flow, _downstream(spec.flow, sources, members)) for spec in specs)
    return JobJoined(job, specs, downstream, weight, iterations)


def _spec(flow: FlowId, size_bytes: float, sources: Iterable[Ends], members: int) -> FlowSpec:
    match flow.role:
        case Role.RING:
            upstream = _arriving(flow, Role.RING, Role.RING, sources)
            return FlowSpec(flow, size_bytes, upstream, size_bytes / (2 * max(1, members - 1)))
        case Role.PULL:
            return FlowSpec(flow, size_bytes, _arriving(flow, Role.PUSH, Role.PULL, sources), 0.0)
        case _:
            return FlowSpec(flow, size_bytes, (), UNLIMITED)


def _arriving(flow: FlowId, sent_as: Role, received_as: Role, sources: Iterable[Ends]) -> tuple[FlowId, ...]:
    return tuple(arriving(flow.job, end, flow.source, sent_as) for role, end in sources if role == received_as)


def _downstream(flow: FlowId, sources: Iterable[Ends], members: int) -> tuple[FlowId, ...]:
    if flow.role == Role.PUSH:
        return (arriving(flow.job, flow.target, flow.source, Role.PULL),)
    if flow.role == Role.RING and members == 2 and (Role.RING, flow.target) in sources:
        return (arriving(flow.job, flow.target, flow.source, Role.RING),)
    return ()
