"""When the jobs on a set of links should start, so that they meet as little as they can (CASSINI, Algorithms 1 and 2).

Every link that jobs share is rotated; the shifts follow from the affinity graph, part by part. The jobs of a part with
a loop are not timed: around a loop two links may ask for different things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from statistics import fmean

from paceline.flowcore.allocation.shifts.affinity import binding, components, has_loop, time_shifts
from paceline.flowcore.allocation.shifts.circle import Profile, on_grid
from paceline.flowcore.allocation.shifts.rotation import Rotation, rotate

cached_rotation = lru_cache(maxsize=4096)(rotate)  # candidates differ in few links


@dataclass(frozen=True, slots=True)
class Link:
    capacity_gbps: float
    profiles: Mapping[str, Profile]  # of the jobs that cross it, as this link sees them


Links = Mapping[str, Link]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a placement comes to."""

    score: float  # mean over the links that jobs share; 1 if they share none
    loop: bool
    rotations: Mapping[str, Rotation]  # of those links
    parts_ms: Sequence[Mapping[str, float]]  # shifts of the jobs on them, by connected part without a loop
    iterations_ms: Mapping[str, float]  # what each of these jobs keeps to

    @property
    def shifts_ms(self) -> dict[str, float]:
        return {job: shift_ms for part in self.parts_ms for job, shift_ms in part.items()}


def plan(links: Links, least_score: float = -inf) -> Plan:
    """Parts with a link that scores less are not shifted: a job that collides there cannot be on time elsewhere."""
    meetings = {link: frozenset(links[link].profiles) for link in links if len(links[link].profiles) > 1}
    shared = {name: links[name] for name in binding(meetings)}
    if not shared:
        return Plan(1.0, False, {}, (), {})
    rotations: dict[str, Rotation] = {}
    parts_ms: list[dict[str, float]] = []
    iterations_ms: dict[str, float] = {}
    loop = False
    for part in components({name: dict.fromkeys(link.profiles, 0.0) for name, link in shared.items()}):
        wanted_ms = {job: profile.iteration_ms for name in part for job, profile in shared[name].profiles.items()}
        rounded_ms, grid_ms = on_grid(wanted_ms, [tuple(jobs) for jobs in part.values()])
        iterations_ms |= rounded_ms
        weights: dict[str, dict[str, float]] = {}
        for name in part:
            jobs = shared[name].profiles
            profiles = tuple(profile.stretched(rounded_ms[job]) for job, profile in jobs.items())
            rotations[name] = cached_rotation(profiles, shared[name].capacity_gbps, grid_ms)
            weights[name] = dict(zip(jobs, rotations[name].shifts_ms(profiles), strict=True))
        if has_loop(part):
            loop = True
        elif all(rotations[name].score >= least_score for name in part):
            parts_ms.append(time_shifts(weights, rounded_ms))
    score = fmean(rotation.score for rotation in rotations.values())
    return Plan(score, loop, rotations, parts_ms, iterations_ms)
