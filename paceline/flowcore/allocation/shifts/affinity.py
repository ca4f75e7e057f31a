"""From shifts per link to one shift per job (CASSINI §4.1, Algorithm 1).

The affinity graph has a node for each job that shares a link and a node for each shared link; the edge (j, l) weighs
t_j^l, the shift that link l wants of job j. Walking from a job whose shift is set, through a link, to another job,

    t_k = (t_j − t_j^l + t_k^l) mod T_k

so on every link all jobs are moved by the same amount against what the link asked for, but for whole iterations of
their own (Theorem 1). That needs a graph without loops: around a loop two links may ask for different things.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

Weights = Mapping[str, Mapping[str, float]]  # link: job: t_j^l, ms


def components(weights: Weights) -> Iterator[dict[str, Mapping[str, float]]]:
    """The links of each connected part, in the order given."""
    left = dict(weights)
    while left:
        part: dict[str, Mapping[str, float]] = {}
        reached: set[str] = set(next(iter(left.values())))
        while joined := [link for link, jobs in left.items() if not reached.isdisjoint(jobs)]:
            for link in joined:
                part[link] = left.pop(link)
                reached.update(part[link])
        yield {link: part[link] for link in weights if link in part}


def has_loop(part: Weights) -> bool:
    """A connected graph is a tree if it has one edge less than nodes."""
    jobs = {job for on_link in part.values() for job in on_link}
    return sum(map(len, part.values())) != len(jobs) + len(part) - 1


def time_shifts(weights: Weights, iteration_ms: Mapping[str, float]) -> dict[str, float]:
    """Algorithm 1 over every part of a graph without loops; the first job of each part stays where it is."""
    links_of: dict[str, list[str]] = {}
    for link, jobs in weights.items():
        for job in jobs:
            links_of.setdefault(job, []).append(link)
    shifts: dict[str, float] = {}
    for root in links_of:
        if root in shifts:
            continue
        shifts[root] = 0.0
        queue = deque([root])
        while queue:
            job = queue.popleft()
            for link in links_of[job]:
                for other, wanted_ms in weights[link].items():
                    if other not in shifts:
                        moved_ms = shifts[job] - weights[link][job] + wanted_ms
                        shifts[other] = moved_ms % iteration_ms[other]
                        queue.append(other)
    return shifts


def binding(meetings: Mapping[str, AbstractSet[str]]) -> list[str]:
    """The links that add a constraint: the first of the links where the same jobs meet, none whose jobs all meet on a
    link with more jobs.

    Deviation from §4.1: two rings over the same two servers meet on four links, which ask for the same; taken as four
    they would be a loop.
    """
    kept: list[str] = []
    for link in sorted(meetings, key=lambda name: -len(meetings[name])):
        if len(meetings[link]) > 1 and not any(meetings[link] <= meetings[other] for other in kept):
            kept.append(link)
    return [link for link in meetings if link in kept]
