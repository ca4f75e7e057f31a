"""How far the simulator is from what was measured on the testbed: slowdowns of the same jobs, scenario by scenario.

    ratio = mean slowdown over jobs and seeds in the reference engine  ÷  the same as measured, over repeats

The measurements are those of `paceline bench paper mixes`, or of one scenario by `paceline bench jobs`. The simulator
has no headers: its links get the payload's share of the testbed's capacity. Under TCP it is compared with `fair` for
what that is worth: a fluid network has no losses, and jobs that are in step stay so.

Where there is cross traffic, what its flows have sent is compared as well, beside what they have beside TCP:

    others = bytes beside the control  ÷  bytes beside cubic on the testbed, and beside `fair` in the simulator

In bytes the simulator gives them more: its flows are at full rate from their first byte on. And no policy whatever is
below the capacity bound on what others leave of the links (beside_others.py): with what they carried beside this
control, and with the part of it that jobs are to leave them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from paceline.flowcore.model.background import FAIR, TRAINING_FIRST, YIELD
from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.model.units import PAYLOAD_SHARE
from paceline.flowcore.policy import POLICIES
from paceline.sim.agreement.beside_others import bound_beside_others
from paceline.sim.run import run

AGREE = 0.02
TCP, MLTCP = ("reno", "cubic", "bbr"), ("mltcp", "mltcp-4")
YARDSTICK = "cubic"
LEFT_TO_OTHERS = 0.95  # of what they have beside it

# Controls of the testbed that are a policy and what is done about cross traffic.
BACKGROUND_OF = {"paceline-yield": ("paceline", YIELD), "paceline-first": ("paceline", TRAINING_FIRST)}


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
    others_measured: float | None = None  # None: there is no cross traffic, or nothing to compare it with
    others_simulated: float | None = None
    bound: float | None = None  # no policy is below, where others carry what they did

    @property
    def ratio(self) -> float:
        return self.simulated / self.measured

    @property
    def judged(self) -> bool:
        """Where the simulator runs what the testbed runs, and not a fluid in place of a congestion control."""
        return self.control not in (*TCP, *MLTCP)

    @property
    def others(self) -> tuple[float | None, float | None]:
        return self.others_measured, self.others_simulated

    @property
    def holds(self) -> bool:
        return not self.judged or abs(self.ratio - 1.0) <= AGREE


def one_measured(document: Any) -> str | None:
    """The scenario of a document of `paceline bench jobs`; None: it is another's."""
    name = document.get("scenario") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def controls_measured(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    try:
        one = document if one_measured(document) == name else document["result"]["measured"][name]
        found: list[Mapping[str, Any]] = one["controls"]
    except (KeyError, TypeError):
        expected = "expected what `paceline bench paper mixes` or `paceline bench jobs` writes"
        raise NotMeasured(f"no measurement of {name!r}: {expected}") from None
    return found


def compared(document: Mapping[str, Any], scenario: Scenario, seeds: Sequence[int]) -> list[Comparison]:
    """One for each control that the simulator has an equal or a likeness of."""
    found, simulated = [], dict[tuple[str, str], Simulated]()
    with_payload, measured = of_payload(scenario), controls_measured(document, scenario.name)
    beside_tcp = next((_others_bytes(one) for one in measured if one["control"] == YARDSTICK), None)
    for control in measured:
        name = control["control"]
        policy, background = BACKGROUND_OF.get(name, ("fair" if name in TCP else name, FAIR))
        if policy not in POLICIES:
            continue
        for chosen, beside in (("fair", FAIR), (policy, background)):
            if (chosen, beside) not in simulated:
                simulated[chosen, beside] = _simulated(with_payload, chosen, beside, seeds)
        interval, others_bytes = control.get("mean_slowdown_95"), _others_bytes(control)
        slowdown, sent = simulated[policy, background]
        others = others_bytes / beside_tcp if others_bytes and beside_tcp else None
        found.append(
            Comparison(
                scenario=scenario.name,
                control=name,
                policy=policy,
                measured=float(control["mean_slowdown"]),
                measured_95=None if interval is None else (float(interval[0]), float(interval[1])),
                simulated=slowdown,
                others_measured=others,
                others_simulated=None if others is None else sent / simulated["fair", FAIR].others_bytes,
                bound=_bound(control, with_payload),
            )
        )
    return found


def bound_left_to_others(document: Mapping[str, Any], scenario: Scenario) -> float | None:
    """The least mean slowdown that leaves others LEFT_TO_OTHERS; None: there are none, or nothing to compare with."""
    measured = controls_measured(document, scenario.name)
    return next(
        (_bound(one, of_payload(scenario), LEFT_TO_OTHERS) for one in measured if one["control"] == YARDSTICK), None
    )


def _bound(control: Mapping[str, Any], scenario: Scenario, part: float = 1.0) -> float | None:
    repeats, jobs = control.get("cross_traffic_bytes") or (), control.get("jobs")
    if scenario.duration_s is None or not jobs or not any(map(sum, repeats)):
        return None
    alone_s = {job["name"]: float(job["alone_iteration_s"]) for job in jobs}
    others_bytes = [part * fmean(sent) for sent in zip(*repeats, strict=True)]
    return bound_beside_others(scenario, alone_s, others_bytes, scenario.duration_s)


class Simulated(NamedTuple):
    mean_slowdown: float
    others_bytes: float  # of all flows of cross traffic together, in one run


def _simulated(scenario: Scenario, policy: str, background: str, seeds: Sequence[int]) -> Simulated:
    runs = [run(scenario, policy, seed, background=background) for seed in seeds]
    return Simulated(fmean(one.mean_slowdown for one in runs), fmean(sum(one.others_bytes) for one in runs))


def _others_bytes(control: Mapping[str, Any]) -> float | None:
    """Of all flows of cross traffic together, in one run."""
    repeats = [sum(map(float, flows)) for flows in control.get("cross_traffic_bytes") or ()]
    return fmean(repeats) if any(repeats) else None


def of_payload(scenario: Scenario) -> Scenario:
    """The same with links of what they carry of payload."""
    links = scenario.topology.links.items()
    payload = {name: replace(link, capacity_bps=PAYLOAD_SHARE * link.capacity_bps) for name, link in links}
    return replace(scenario, topology=replace(scenario.topology, links=payload))
