"""How far the simulator is from what was measured on the testbed: slowdowns of the same jobs, scenario by scenario.

    ratio = mean slowdown over jobs and seeds in the reference engine  ÷  the same as measured, over repeats

The measurements are those of `paceline bench paper mixes`. The simulator has no headers: its links get the payload's
share of the testbed's capacity. Under TCP it is compared with `fair` for what that is worth: a fluid network has no
losses, and jobs that are in step stay so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.units import PAYLOAD_SHARE
from paceline.flowcore.policy import POLICIES
from paceline.sim.run import run

AGREE = 0.02
TCP = ("reno", "cubic", "bbr")


class NotMeasured(ValueError):
    """There is nothing to compare with; str() says what is missing."""


@dataclass(frozen=True, slots=True)
class Comparison:
    scenario: str
    control: str  # on the testbed ...
    policy: str  # ... and in the simulator
    measured: float  # mean slowdown
    measured_95: tuple[float, float] | None
    simulated: float

    @property
    def ratio(self) -> float:
        return self.simulated / self.measured

    @property
    def judged(self) -> bool:
        """Where the simulator runs what the testbed runs."""
        return self.control == self.policy

    @property
    def holds(self) -> bool:
        return not self.judged or abs(self.ratio - 1.0) <= AGREE


def controls_measured(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    try:
        found: list[Mapping[str, Any]] = document["result"]["measured"][name]["controls"]
    except (KeyError, TypeError):
        raise NotMeasured(f"no measurement of {name!r}: expected what `paceline bench paper mixes` writes") from None
    return found


def compared(document: Mapping[str, Any], scenario: Scenario, seeds: Sequence[int]) -> list[Comparison]:
    """One for each control that the simulator has an equal or a likeness of."""
    found, slowdowns = [], dict[str, float]()
    with_payload = of_payload(scenario)
    for control in controls_measured(document, scenario.name):
        name = control["control"]
        policy = "fair" if name in TCP else name
        if policy not in POLICIES:
            continue
        if policy not in slowdowns:
            slowdowns[policy] = fmean(run(with_payload, policy, seed).mean_slowdown for seed in seeds)
        interval = control.get("mean_slowdown_95")
        within = None if interval is None else (float(interval[0]), float(interval[1]))
        found.append(
            Comparison(scenario.name, name, policy, float(control["mean_slowdown"]), within, slowdowns[policy])
        )
    return found


def of_payload(scenario: Scenario) -> Scenario:
    """The same with links of what they carry of payload."""
    links = scenario.topology.links.items()
    payload = {name: replace(link, capacity_bps=PAYLOAD_SHARE * link.capacity_bps) for name, link in links}
    return replace(scenario, topology=replace(scenario.topology, links=payload))
