"""Feeds: flows that wait for the same upstream flows share one, and the feeds of all jobs are one set of arrays."""

import numpy as np

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.sim.kernel.feeds import all_feeds, feeds_of, with_job


def job(name: str, first: int) -> tuple[list[FlowSpec], dict[FlowId, int]]:
    """Two flows that wait for nothing, one that waits for both, and two that wait for that one."""
    a, b, c, d, e = (FlowId(name, f"h{n}", f"h{n + 1}", Role.OTHER) for n in range(5))
    upstream = {a: (), b: (), c: (a, b), d: (c,), e: (c,)}
    specs = [FlowSpec(flow, 1.0, before, 0.0) for flow, before in upstream.items()]
    return specs, {flow: first + place for place, flow in enumerate(upstream)}


def test_flows_that_wait_for_the_same_flows_share_a_feed() -> None:
    feeds = feeds_of(*job("j", 10))
    assert feeds.upstream.tolist() == [10, 11, 12]
    assert feeds.upstream_in.tolist() == [2, 1]
    assert (feeds.fed.tolist(), feeds.by.tolist()) == ([12, 13, 14], [0, 1, 1])


def test_one_reduction_finds_the_slowest_flow_of_every_feed_of_every_job() -> None:
    nothing = feeds_of([], {})
    feeds = all_feeds([feeds_of(*job("j", 0)), nothing, feeds_of(*job("k", 5))], np.arange(10.0))
    assert (feeds.fed.tolist(), feeds.by.tolist()) == ([2, 3, 4, 7, 8, 9], [0, 1, 1, 2, 3, 3])
    sent = np.array([5.0, 3.0, 1.0, 0.0, 0.0, 8.0, 9.0, 2.0, 0.0, 0.0])
    assert np.minimum.reduceat(sent[feeds.upstream], feeds.first_upstream).tolist() == [3.0, 1.0, 8.0, 2.0]
    assert feeds.upstream_grain.tolist() == [2.0, 2.0, 4.0, 7.0, 7.0, 9.0]


def test_a_job_more_is_as_all_of_them_anew() -> None:
    nothing, jobs = feeds_of([], {}), [feeds_of(*job("j", 0)), feeds_of(*job("k", 5))]
    grain = np.arange(10.0)
    for order in (jobs, [nothing, *jobs], [*jobs, nothing]):
        expected, found = all_feeds(order, grain), with_job(all_feeds(order[:-1], grain), order[-1], grain)
        for name in ("upstream", "first_upstream", "fed", "by", "upstream_grain"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
