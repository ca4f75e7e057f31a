"""Rates over time, for figures: at each time, the rate of each flow from then on."""

from dataclasses import dataclass, field

from paceline.flowcore.model.patterns import FlowId


@dataclass(slots=True)
class Recording:
    times_ns: list[int] = field(default_factory=list)
    rates_bps: list[dict[FlowId, float]] = field(default_factory=list)
