"""What larger clusters need, from what a smaller one was measured to cost.

A host's negotiation costs its ToR `tor_cpu_us_per_negotiation` and the tier above `spine_cpu_us_per_negotiation`,
once a slot, whatever the size of the cluster: a ToR serves only its own rack, and the share of jobs that leave it is
the measurement's `across`. So the work grows with the hosts and is divided among processes; each is one Python
thread, filled to FILL of a core so that a queue stays short (at 60 % utilisation random arrivals wait 0.75 service
times on average). Spines divide the upper tier's work among them: claims on their own links as ECMP divides the flows,
forwarded reports from ToR to ToR by a hash of the ToR they are for (switchd/routing.py).

Not measured is how well reports coalesce. Flows to the same ToR share a forwarded report, and reports to the same spine
a frame. Few ToRs and one spine, as measured here, fill them; among hundreds of ToRs nearly every flow that leaves its
rack is a report of its own, and several spines have as many half-empty frames. The result is therefore a lower bound.
"""

import math
from collections.abc import Mapping

FILL = 0.6
HOSTS_PER_RACK = 48


def needs(measured: Mapping[str, object], hosts: int) -> dict[str, object]:
    """Processes, cores and bandwidth that so many hosts need at least. `measured`: a result with several switches."""
    slot_us = 1e3 * _number(measured, "slot_ms")
    tor_share = _number(measured, "tor_cpu_us_per_negotiation") / slot_us  # of a core, per host
    spine_share = _number(measured, "spine_cpu_us_per_negotiation") / slot_us
    hosts_per_tor = min(HOSTS_PER_RACK, math.floor(FILL / tor_share))
    if hosts_per_tor < 1:
        raise ValueError("one host's negotiation takes more than a slot: nothing scales from here")
    bytes_per_slot = _number(measured, "control_bytes_per_negotiation")
    mbps_per_host = 8 * bytes_per_slot / slot_us
    return {
        "hosts": hosts,
        "hosts_per_tor": hosts_per_tor,
        "tor_processes": math.ceil(hosts / hosts_per_tor),
        "tor_cores": round(hosts * tor_share, 2),
        "tor_utilization": round(hosts_per_tor * tor_share, 2),
        "spine_processes": math.ceil(hosts * spine_share / FILL),
        "spine_cores": round(hosts * spine_share, 2),
        "control_mbps": round(hosts * mbps_per_host, 1),
        "control_mbps_per_host": round(mbps_per_host, 3),
    }


def _number(measured: Mapping[str, object], key: str) -> float:
    value = measured.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"found no number {key!r}, expected a result of `paceline bench negotiate --json`")
    return float(value)
