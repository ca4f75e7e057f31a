"""What may be another in a topology while hostd runs."""

import pytest

from hostd.kernel.sockets import DataSocket
from hostd.monitor.job_tracker import JobTracker
from hostd.rewiring import rewire, why_not
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import JobJoined
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology, UnknownHostError, wired
from paceline.flowcore.policy import POLICIES

CABLES = {"r1": [("core", 10.0)], "r2": [("core", 10.0)], "a": [("r1", 1.0)], "b": [("r1", 1.0)], "c": [("r2", 1.0)]}


def topology(**changed: list[tuple[str, float]]) -> Topology:
    cables = {name: above for name, above in (CABLES | changed).items() if above}
    hosts = [name for name in cables if not name.startswith("r")]
    return wired(hosts, ["core", *(name for name in cables if name.startswith("r"))], cables, {})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"d": [("r1", 5.0)]}, ""),
        ({"c": []}, ""),
        ({"r1": [("core", 40.0)]}, ""),
        ({"a": [("r1", 2.0)]}, "the cables of this host cannot change while hostd runs; restart it"),
        ({"a": [("r2", 1.0)]}, "the cables of this host cannot change while hostd runs; restart it"),
        ({"b": []}, "b is not in the topology any more, and job j sends to it"),
    ],
    ids=["a host more", "a host less", "a rate elsewhere", "its rate", "its switch", "a host in use"],
)
def test_its_own_cables_and_hosts_in_use_must_stay(changed: dict[str, list[tuple[str, float]]], said: str) -> None:
    job = JobTracker("j", "a")
    job.sockets.sending = {
        (Role.RING, "b"): (DataSocket(1, 2, 3, "127.0.0.1", "127.0.0.2", 4, 5),),
        (Role.RING, "left"): (),
    }
    assert why_not(topology(), topology(**changed), "a", {"j": job}) == said


def test_a_host_without_sockets_to_it_may_be_in_use() -> None:
    """Over RDMA, say: what a job sends there is known by its net plugin's counts."""
    job = JobTracker("j", "a")
    job.demand.learner.observe({(Role.RING, "b"): 1e6})
    assert why_not(topology(), topology(b=[]), "a", {"j": job}).startswith("b is not in the topology")


def test_a_topology_that_does_not_fit_changes_nothing() -> None:
    agent = HostAgent("a", before := topology(), SlotClock(60_000_000, 10), POLICIES["paceline"](), "r1")
    agent.handle(JobJoined("j", (FlowSpec(FlowId("j", "a", "b", Role.RING), 1e6, (), 1e6),), ()), 0)
    with pytest.raises(UnknownHostError):
        rewire(agent, topology(b=[]))
    assert agent.topology is before


def test_jobs_with_another_path_are_named() -> None:
    agent = HostAgent("a", topology(), SlotClock(60_000_000, 10), POLICIES["paceline"](), "r1")
    for job, target in (("stays", "b"), ("moves", "c")):
        agent.handle(JobJoined(job, (FlowSpec(FlowId(job, "a", target, Role.RING), 1e6, (), 1e6),), ()), 0)
    assert rewire(agent, topology(d=[("r1", 1.0)])) == set()
    assert rewire(agent, topology(c=[("r1", 1.0)])) == {"moves"}
