"""Jobs that look like parts of one: it has another name on each of its hosts.

A job's members send to each other, so a host that a job sends to sends for the same job. Where a switch hears all that
a host sends, and hears nothing of the job, the job's *other end is unheard of*:

    job a    h0 -> h1            and h1 sends nothing for a
    job b    h1 -> h0            and h0 sends nothing for b            a and b are one job

Two such jobs of one tenant, the one sending to a host that sends for the other, and no host sending for both, are
split. A host that only watches a job says nothing of it, so that an unheard end alone proves nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import islice

from paceline.flowcore.model.job_names import tenant_of
from paceline.flowcore.model.patterns import FlowId

MOST_COMPARED = 20_000  # a host may name hundreds of jobs, each of which would be compared with all of another's


def split_jobs(flows: Iterable[FlowId], heard_hosts: Collection[str]) -> list[tuple[str, str]]:
    """Pairs of names, in order; `heard_hosts` report everything they send to the switch that asks."""
    heard = {*heard_hosts}
    sources: defaultdict[str, set[str]] = defaultdict(set)
    targets: defaultdict[str, set[str]] = defaultdict(set)
    for flow in flows:
        sources[flow.job].add(flow.source)
        targets[flow.job].add(flow.target)
    unheard = {job: (to & heard) - sources[job] for job, to in targets.items()}
    sending = defaultdict[str, set[str]](set)  # jobs with an unheard end, by the hosts that send for them
    for job, ends in unheard.items():
        if ends:
            for host in sources[job]:
                sending[host].add(job)
    pairs: set[tuple[str, str]] = set()
    candidates = ((job, other) for job, ends in unheard.items() for host in ends for other in sending[host])
    for job, other in islice(candidates, MOST_COMPARED):
        if other != job and tenant_of(other) == tenant_of(job) and sources[job].isdisjoint(sources[other]):
            pairs.add((min(job, other), max(job, other)))
    return sorted(pairs)
