"""What an iteration puts on a switch's links, learned from claims."""

import pytest

from paceline.flowcore.messages.reports import Bid, Claim
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.job_demand import JobDemand

LINKS = {"up": 1e9, "down": 5e8}
A, B = FlowId("a", "h0", "h1", Role.RING), FlowId("a", "h1", "h0", Role.RING)


def claim(flow: FlowId, size_bytes: float, sent_bytes: float = 0.0) -> Claim:
    return Claim(flow, ("up", "down"), size_bytes, Bid(1.0), sent_bytes, 0.0, (), ())


def test_the_slowest_link_decides_how_long_an_exchange_takes() -> None:
    demand = JobDemand(LINKS)
    assert demand.alone_ns == 0
    demand.learn(claim(A, 25e6), ["up", "down"], 0, renewed=False)
    assert demand.alone_ns == pytest.approx(4e8)  # 25 MB over 500 Mbit/s
    demand.learn(claim(B, 100e6), ["up"], 0, renewed=False)
    assert demand.alone_ns == pytest.approx(1e9)  # 125 MB over 1 Gbit/s


def test_a_flow_counts_once_with_its_last_size() -> None:
    demand = JobDemand(LINKS)
    for size_bytes in (50e6, 25e6):
        demand.learn(claim(A, size_bytes), ["down"], 0, renewed=False)
    assert demand.size_bytes(A) == 25e6 and demand.size_bytes(B) == 0.0
    assert demand.alone_ns == pytest.approx(4e8)


def test_flows_that_are_named_no_more_are_forgotten() -> None:
    demand = JobDemand(LINKS)
    demand.learn(claim(A, 25e6), ["down"], 1, renewed=False)
    demand.learn(claim(B, 25e6), ["down"], 5, renewed=False)
    demand.forget(before_slot=5)
    assert demand.size_bytes(A) == 0.0 and demand.alone_ns == pytest.approx(4e8)
    assert demand.heard_slot == 5


def test_a_flow_of_size_0_is_forgotten_like_any_other() -> None:
    demand = JobDemand(LINKS)
    demand.learn(claim(A, 0.0), ["down"], 1, renewed=False)
    demand.forget(before_slot=5)
    assert demand.alone_ns == 0


def test_a_flow_counts_with_half_of_what_it_sent_at_once_whatever_its_host_says() -> None:
    demand = JobDemand(LINKS)
    demand.learn(claim(A, 0.0, 100e6), ["down"], 0, renewed=False)
    assert demand.alone_ns == 0
    demand.learn(claim(A, 0.0, 125e6), ["down"], 1, renewed=True)
    assert demand.alone_ns == pytest.approx(2e8)
    demand.learn(claim(A, 0.0, 125e6), ["down"], 9, renewed=False)
    assert demand.alone_ns == pytest.approx(2e8), "it will do so again"


def test_a_report_with_many_flows_of_a_job_costs_as_much_as_it_has_flows() -> None:
    """Each claim added up all of them: half a second for a host that changes its sizes at every report."""
    demand, added = JobDemand(LINKS), 0

    class Counted(dict[str, float]):
        def __getitem__(self, link: str) -> float:
            nonlocal added
            added += 1
            return super().__getitem__(link)

    demand._capacity_bps = Counted(LINKS)
    for number in range(400):
        demand.learn(claim(FlowId("a", f"h{number}", "h", Role.RING), 25e6), ["up"], 0, renewed=False)
    assert demand.alone_ns == demand.alone_ns == pytest.approx(400 * 2e8) and added < 10
