"""How long an iteration's all-reduce takes where a job's workers are: by the network, or by Dally's Table I.

    network   Σ_t  max_l (bytes over link l in phase t / its rate)  +  messages · Σ_t latency of the tier
              on the links of the topology, the pairs within a machine at the machine's own rate
    table     a share of the compute time, by model and tier, whatever the links

Latencies are our own figures: a step within a machine, through a rack's switch, and across the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from paceline.cluster.collectives import Phase
from paceline.cluster.tiers import Tier, tier_of
from paceline.flowcore.model.topology import Topology
from paceline.flowcore.model.units import bps_from_gbps

STEP_S = (3e-6, 6e-6, 30e-6)  # by tier; each phase waits for its slowest pair
MESSAGE_BYTES = 25e6  # gradients travel in buckets, each an all-reduce of its own


@dataclass(frozen=True, slots=True)
class Exchange:
    seconds: float  # with no other job on the links
    busy_s: dict[str, float] = field(default_factory=dict)  # of it, each link's time at full rate


@dataclass(frozen=True)
class NetworkModel:
    topology: Topology
    machine_gbps: float = 900.0  # NVSwitch, per GPU

    def exchange(self, phases: Sequence[Phase], ranks: Sequence[str], size_bytes: float) -> Exchange:
        """One iteration's, with worker n on server ranks[n]."""
        machine_bps = bps_from_gbps(self.machine_gbps)
        step_s = STEP_S[tier_of(dict.fromkeys(ranks, 1), self.topology.switch_of)] if len(ranks) > 1 else 0.0
        seconds, busy_s = 0.0, dict[str, float]()
        for phase in phases:
            over: dict[str, float] = {}
            inside_s = 0.0
            for (one, other), bytes_ in phase.bytes_of.items():
                source, target = ranks[one], ranks[other]
                if source == target:
                    inside_s = max(inside_s, bytes_ * 8 / machine_bps)
                    continue
                ways = ((source, target), (target, source)) if phase.both_ways else ((source, target),)
                for way in ways:
                    for link in self.topology.path(*way, ""):
                        over[link] = over.get(link, 0.0) + bytes_
            took_s = {link: bytes_ * 8 / self.topology.links[link].capacity_bps for link, bytes_ in over.items()}
            seconds += phase.times * max(inside_s, max(took_s.values(), default=0.0))
            for link, link_s in took_s.items():
                busy_s[link] = busy_s.get(link, 0.0) + phase.times * link_s
        steps = sum(phase.times for phase in phases)
        return Exchange(seconds + ceil(size_bytes / MESSAGE_BYTES) * steps * step_s, busy_s)

    def pair_bytes(self, one: str, other: str, within_s: float) -> float:
        """What can pass between two machines in so long: Titan's P_{s,s'} for a phase."""
        return min(self.topology.links[link].capacity_bps for link in self.topology.path(one, other, "")) * within_s / 8


def by_table(share_of_compute: Sequence[float], compute_s: float, tier: Tier) -> Exchange:
    """Dally's Table I: communication as a share of computing, by tier."""
    return Exchange(share_of_compute[tier] * compute_s)
