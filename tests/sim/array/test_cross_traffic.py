"""Cross traffic on a host's own NIC: it has no HTB class and shares the line as TCP does, in every network alike."""

from math import inf

import pytest

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.topology import star
from paceline.sim.array import network as array_network
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.reference.network import FluidNetwork

TOPOLOGY = star(4, 1.0)
FIRST, SECOND = FlowId("a", "h0", "h1", Role.RING), FlowId("b", "h0", "h2", Role.RING)
CROSS = FlowId("cross traffic", "h0", "h3", Role.OTHER)
SPECS = [FlowSpec(flow, size, (), inf) for flow, size in ((FIRST, 1e9), (SECOND, 1e9), (CROSS, inf))]
FLOOR, LINE = 1e6, 1e9

Limits = dict[FlowId, tuple[float, ...]]  # guarantee and ceiling, and for how many flows it stands

CASES: list[tuple[Limits, float, dict[FlowId, float]]] = [
    # Its turn, and it stands for the one that waits as well: two parts of three, as if both were sending.
    (
        {FIRST: (LINE, LINE, 2.0), SECOND: (FLOOR, FLOOR)},
        LINE,
        {FIRST: (LINE - FLOOR) * 2 / 3, SECOND: FLOOR, CROSS: (LINE - FLOOR) / 3},
    ),
    # It has just begun: guaranteed nothing yet, it borrows all of HTB's link, and TCP halves the line.
    ({FIRST: (FLOOR, LINE)}, LINE, {FIRST: 5e8, CROSS: 5e8}),
    # Its turn: HTB holds the other to its floor, and the line is halved all the same.
    ({FIRST: (LINE, LINE), SECOND: (FLOOR, FLOOR)}, LINE, {FIRST: 4.995e8, SECOND: FLOOR, CROSS: 4.995e8}),
    # No turns: three flows, three parts.
    ({FIRST: (5e8, LINE), SECOND: (5e8, LINE)}, LINE, {FIRST: LINE / 3, SECOND: LINE / 3, CROSS: LINE / 3}),
    # Less than its part is all it wants; HTB divides the rest as the guarantees say, as far as TCP lets it.
    ({FIRST: (8e8, LINE), SECOND: (1e8, 1e8)}, 2e8, {FIRST: 7e8, SECOND: 1e8, CROSS: 2e8}),
]


@pytest.mark.parametrize(("limits", "offered_bps", "expected"), CASES)
def test_in_the_reference(limits: Limits, offered_bps: float, expected: dict[FlowId, float]) -> None:
    network = FluidNetwork(TOPOLOGY)
    network.add(SPECS)
    network.cap(CROSS, offered_bps)
    for flow in (*limits, CROSS):
        network.start(flow)
    for flow, limit in limits.items():
        network.limit(flow, *limit)
    assert dict(network.rates()) == pytest.approx(expected)


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize(("limits", "offered_bps", "expected"), CASES)
def test_in_arrays(
    limits: Limits,
    offered_bps: float,
    expected: dict[FlowId, float],
    in_c: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not in_c:
        monkeypatch.setattr(array_network, "library", lambda: None)
    network = ArrayNetwork(TOPOLOGY, None)
    for index, spec in enumerate(SPECS):
        network.add([spec], index)
    network.cap(network.numbers[CROSS], offered_bps)
    for flow in (*limits, CROSS):
        network.start(network.numbers[flow])
    for flow, limit in limits.items():
        network.limit(network.numbers[flow], *limit)
    network.run(1_000_000, 1_000_000, 1_000_000)
    assert {flow: network.rate[network.numbers[flow]] for flow in expected} == pytest.approx(expected)
