"""A job as its links see it: it computes, then sends for so long, at the rate that spreads its bytes over that time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paceline.flowcore.allocation.shifts.circle import Phase, Profile
from paceline.flowcore.allocation.shifts.plan import Link
from paceline.flowcore.model.units import gbps_from_bps


@dataclass(frozen=True, slots=True)
class Footprint:
    compute_ms: float
    sends_ms: float
    profiles: Mapping[str, Profile]
    slack: float  # drift.py

    @classmethod
    def of(cls, compute_s: float, sends_s: float, on_link_bits: Mapping[str, float], slack: float) -> "Footprint":
        """Of a job that sends these bits in an iteration."""
        compute_ms, sends_ms = 1e3 * compute_s, 1e3 * sends_s
        phases = {
            link: (Phase(compute_ms, sends_ms, gbps_from_bps(bits / sends_s)),) for link, bits in on_link_bits.items()
        }
        profiles = {link: Profile(compute_ms + sends_ms, up) for link, up in phases.items()}
        return cls(compute_ms, sends_ms, profiles, slack)

    @property
    def iteration_ms(self) -> float:
        return self.compute_ms + self.sends_ms

    @property
    def needs_ms(self) -> float:
        """For an iteration, with its slack."""
        return (1.0 + self.slack) * self.iteration_ms

    def stretched(self, iteration_ms: float) -> "Footprint":
        """The same job, held to a longer iteration."""
        longer = {link: profile.stretched(iteration_ms) for link, profile in self.profiles.items()}
        return replace(self, profiles=longer)


def shared_links(jobs: Mapping[str, Footprint], capacity_bps: Mapping[str, float]) -> dict[str, Link]:
    """The links on which these jobs meet."""
    on_link: dict[str, dict[str, Profile]] = {}
    for name, job in jobs.items():
        for link, profile in job.profiles.items():
            on_link.setdefault(link, {})[name] = profile
    return {
        link: Link(gbps_from_bps(capacity_bps[link]), profiles)
        for link, profiles in on_link.items()
        if len(profiles) > 1
    }
