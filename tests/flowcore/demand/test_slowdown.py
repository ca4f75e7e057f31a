"""How much slower than alone, by the equations at the head of slowdown.py."""

import pytest

from paceline.flowcore.demand.slowdown import alone_ns, exchange_alone_ns, link_bytes, slowdown
from paceline.flowcore.demand.timing import IterationTimes
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import star, tree

MS = 1e6


def times(iteration_ms: float, fastest_ms: float, computing_ms: float | None, beside_ms: float = 0.0) -> IterationTimes:
    computing_ns = None if computing_ms is None else computing_ms * MS
    return IterationTimes(9, iteration_ms * MS, fastest_ms * MS, computing_ns, beside_ms * MS)


def test_the_exchange_alone_is_as_long_as_its_busiest_link_takes() -> None:
    sizes = {
        FlowId("a", "h0", "h1", Role.RING): 1e6,
        FlowId("a", "h0", "h2", Role.RING): 2e6,
        FlowId("a", "h1", "h0", Role.RING): 2.5e6,
    }
    assert link_bytes(sizes, star(3, 1.0))["h0->sw"] == 3e6
    assert exchange_alone_ns(sizes, star(3, 1.0)) == pytest.approx(24 * MS)
    narrow = tree(1, 3, 1, [1.0, 0.5, 1.0])
    assert exchange_alone_ns(sizes, narrow) == pytest.approx(48 * MS), "the link of the rack is half as fast"
    assert exchange_alone_ns({}, narrow) == 0


@pytest.mark.parametrize(
    ("seen", "exchange_ms", "expected_ms"),
    [
        (times(160, 150, 40), 60, 100),  # even the fastest met another job
        (times(160, 103, 40), 60, 103),  # they did not, and took a little longer than bytes ÷ rate
        (times(160, 99, 40), 60, 100),  # faster than the line: computing varies
        (times(160, 150, 40, beside_ms=70), 60, 110),  # the computing beside it is longer than the exchange
    ],
)
def test_alone_is_computing_and_exchange_or_what_the_fastest_iterations_took(
    seen: IterationTimes, exchange_ms: float, expected_ms: float
) -> None:
    assert alone_ns(seen, exchange_ms * MS) == pytest.approx(expected_ms * MS)


def test_where_flows_are_unknown_the_fastest_iterations_are_all_there_is() -> None:
    assert alone_ns(times(160, 150, 40), 60 * MS, all_flows_known=False) == 150 * MS
    assert alone_ns(times(160, 90, 40), 60 * MS, all_flows_known=False) == 100 * MS
    assert alone_ns(times(160, 150, None), 60 * MS) is None


def test_no_job_is_faster_than_alone() -> None:
    assert slowdown(150 * MS, 100 * MS) == 1.5
    assert slowdown(99 * MS, 100 * MS) == 1.0
