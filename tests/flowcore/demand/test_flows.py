"""Which flow feeds which, by the roles of a job's processes."""

import pytest

from paceline.flowcore.demand.flows import job_joined
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.units import UNLIMITED


def test_a_server_gives_back_what_was_pushed_to_it() -> None:
    sizes = {(Role.PULL, "h0"): 100.0, (Role.PULL, "h1"): 100.0}
    joined = job_joined("p", "h2", sizes, sizes, members=3)
    pushes = {FlowId("p", "h0", "h2", Role.PUSH), FlowId("p", "h1", "h2", Role.PUSH)}
    assert len(joined.flows) == 2
    for spec in joined.flows:
        assert spec.flow.role == Role.PULL and set(spec.upstream) == pushes and spec.window_bytes == 0.0


def test_a_worker_pushes_without_waiting_for_any_flow() -> None:
    joined = job_joined("p", "h0", {(Role.PUSH, "h2"): 100.0}, {}, members=2)
    [spec] = joined.flows
    assert spec.upstream == () and spec.window_bytes == UNLIMITED
    assert joined.downstream == ((spec.flow, (FlowId("p", "h2", "h0", Role.PULL),)),)


@pytest.mark.parametrize("members", [2, 3])
def test_a_rings_flow_forwards_what_comes_in_and_only_a_ring_of_two_knows_where_it_goes(members: int) -> None:
    ring = {(Role.RING, "h1"): 100.0}
    joined = job_joined("a", "h0", ring, {**ring, (Role.RING, "h2"): 0.0}, members)
    [spec] = joined.flows
    assert spec.upstream == (FlowId("a", "h1", "h0", Role.RING),), "nothing came from h2"
    assert spec.window_bytes == 100.0 / (2 * (members - 1))
    assert joined.downstream == ((spec.flow, spec.upstream if members == 2 else ()),)


def test_between_rails_both_ends_call_a_flow_the_same() -> None:
    """What h1 sends to h0's NIC on r1 comes, for h0, from h1's NIC on r1."""
    ring = {(Role.RING, "h1@r1"): 100.0}
    joined = job_joined("a", "h0", ring, ring, members=2)
    [spec] = joined.flows
    back = FlowId("a", "h1", "h0@r1", Role.RING)
    assert (spec.flow, spec.upstream) == (FlowId("a", "h0", "h1@r1", Role.RING), (back,))
    assert joined.downstream == ((spec.flow, (back,)),)
    push = job_joined("p", "h0", {(Role.PUSH, "h2@r1"): 100.0}, {}, members=2)
    assert push.downstream[0][1] == (FlowId("p", "h2", "h0@r1", Role.PULL),)
