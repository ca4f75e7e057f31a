"""The timeline of one link as one daemon tells it: a minute by slots, ten minutes by seconds, an hour by five seconds.

Time is the daemons' own, slot × slot length: what a host and a switch say of one moment stands above each other, and a
page that was opened later shows the same.
"""

from collections.abc import Mapping
from typing import Any

from paceline.web.rings import Ring

MINUTE_S = 60.0
MOST_SLOTS = 3000  # of a minute, if slots are as short as 20 ms
STEPS_S = (1.0, 5.0)
LENGTHS = (600, 720)
LEVELS = 1 + len(STEPS_S)


class Timeline:
    """`kind`: promised, as a switch has it in its table, or measured by the host that sends into the link."""

    def __init__(self, daemon: str, link: str, kind: str, capacity_bps: float, slot_s: float) -> None:
        self.daemon, self.link, self.kind = daemon, link, kind
        self.capacity_bps, self.slot_s = capacity_bps, slot_s
        self.slot = 0
        self.now_bps: dict[str, float] = {}
        slots = min(MOST_SLOTS, max(1, round(MINUTE_S / slot_s)))
        self.rings = (Ring(slots), *map(Ring, LENGTHS))
        self.steps_s = (slot_s, *STEPS_S)

    @property
    def id(self) -> str:
        return f"{self.daemon} {self.link}"

    def add(self, slot: int, rates_bps: Mapping[str, float]) -> None:
        self.slot, self.now_bps = slot, dict(rates_bps)
        for ring, step_s in zip(self.rings, self.steps_s, strict=True):
            ring.add(slot if step_s == self.slot_s else int(slot * self.slot_s / step_s), rates_bps)

    def since(self, level: int, bucket: int = -1) -> dict[str, Any]:
        buckets, jobs = self.rings[level].since(bucket)
        return {"step_s": self.steps_s[level], "buckets": buckets, "jobs": jobs}

    def meta(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.link,
            "daemon": self.daemon,
            "kind": self.kind,
            "capacity_bps": self.capacity_bps,
            "slot": self.slot,
            "slot_ms": self.slot_s * 1e3,
            "load_bps": round(sum(self.now_bps.values())),
            "jobs": {job: round(bps) for job, bps in self.now_bps.items() if bps > 0.0},
        }
