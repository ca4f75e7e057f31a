import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role, downstream_of, flows_of
from paceline.flowcore.model.scenario import JobSpec, Pattern


def job(pattern: Pattern, workers: int, servers: tuple[str, ...] = (), model_mb: float = 12.0) -> JobSpec:
    hosts = tuple(f"h{number}" for number in range(workers))
    return JobSpec("a", pattern, hosts, servers, model_mb, 0.1, 10, 0.0, 0.0)


rings = st.builds(job, st.just(Pattern.ALLREDUCE), st.integers(min_value=2, max_value=20))
servers = st.lists(st.sampled_from(["h0", "h1", "h50", "h51", "h52"]), min_size=1, unique=True).map(tuple)
ps_jobs = st.builds(job, st.just(Pattern.PS), st.integers(min_value=1, max_value=8), servers)


def ring_flow(source: str, target: str) -> FlowId:
    return FlowId("a", source, target, Role.RING)


def test_a_ring_of_three() -> None:
    """12 MB over 3 workers: 2·(2/3) of the model each, in chunks of a third."""
    assert flows_of(job(Pattern.ALLREDUCE, 3)) == (
        FlowSpec(ring_flow("h0", "h1"), 16e6, (ring_flow("h2", "h0"),), 4e6),
        FlowSpec(ring_flow("h1", "h2"), 16e6, (ring_flow("h0", "h1"),), 4e6),
        FlowSpec(ring_flow("h2", "h0"), 16e6, (ring_flow("h1", "h2"),), 4e6),
    )


def test_the_ring_follows_the_order_of_the_workers() -> None:
    shuffled = JobSpec("a", Pattern.ALLREDUCE, ("h2", "h0", "h1"), (), 12.0, 0.1, 10, 0.0, 0.0)
    assert [str(spec.flow) for spec in flows_of(shuffled)] == ["a/ring/h2>h0", "a/ring/h0>h1", "a/ring/h1>h2"]


def test_a_parameter_server_on_the_host_of_a_worker() -> None:
    push0, push1 = FlowId("a", "h0", "h0", Role.PUSH), FlowId("a", "h1", "h0", Role.PUSH)
    pull0, pull1 = FlowId("a", "h0", "h0", Role.PULL), FlowId("a", "h0", "h1", Role.PULL)
    assert flows_of(job(Pattern.PS, 2, ("h0",))) == (
        FlowSpec(push0, 12e6, (), math.inf),
        FlowSpec(push1, 12e6, (), math.inf),
        FlowSpec(pull0, 12e6, (push0, push1), 0.0),
        FlowSpec(pull1, 12e6, (push0, push1), 0.0),
    )
    assert [flow.local for flow in (push0, push1, pull0, pull1)] == [True, False, True, False]


def test_the_model_is_split_over_the_servers() -> None:
    specs = flows_of(job(Pattern.PS, 3, ("h50", "h51")))
    assert {spec.size_bytes for spec in specs} == {6e6}
    assert len(specs) == 2 * 3 * 2


@pytest.mark.parametrize(("role", "shown"), [(Role.PUSH, "b/push/h0>h3"), (Role.PULL, "b/pull/h0>h3")])
def test_a_flow_shows_job_role_and_ends(role: Role, shown: str) -> None:
    assert f"{FlowId('b', 'h0', 'h3', role)}" == shown


@given(st.one_of(rings, ps_jobs))
def test_flows_are_unique_and_upstream_flows_are_flows_of_the_job(job: JobSpec) -> None:
    specs = flows_of(job)
    flows = {spec.flow for spec in specs}
    assert len(flows) == len(specs)
    assert len({str(flow) for flow in flows}) == len(specs)  # the text is the key of ECMP
    assert all(set(spec.upstream) <= flows for spec in specs)


@given(st.one_of(rings, ps_jobs))
def test_an_upstream_flow_arrives_where_its_downstream_flow_leaves(job: JobSpec) -> None:
    assert all(feeder.target == spec.flow.source for spec in flows_of(job) for feeder in spec.upstream)


@given(rings)
def test_every_ring_member_sends_and_receives_2_n_minus_1_over_n_of_the_model(job: JobSpec) -> None:
    specs, n = flows_of(job), len(job.workers)
    assert {spec.flow.source for spec in specs} == {spec.flow.target for spec in specs} == set(job.workers)
    assert all(spec.size_bytes == pytest.approx(2 * (n - 1) / n * job.model_mb * 1e6) for spec in specs)


@given(ps_jobs)
def test_every_worker_pushes_and_pulls_the_whole_model(job: JobSpec) -> None:
    specs = flows_of(job)
    for worker in job.workers:
        pushed = sum(s.size_bytes for s in specs if s.flow.role is Role.PUSH and s.flow.source == worker)
        pulled = sum(s.size_bytes for s in specs if s.flow.role is Role.PULL and s.flow.target == worker)
        assert pushed == pulled == pytest.approx(job.model_mb * 1e6)


@given(st.one_of(rings, ps_jobs))
def test_an_iteration_can_finish_under_its_own_dependencies(job: JobSpec) -> None:
    """No deadlock: sending all that F_i <= min F_j + window allows, again and again, sends everything."""
    specs = flows_of(job)
    sent_bytes = {spec.flow: 0.0 for spec in specs}
    for _ in range(2 * len(specs)):
        for spec in specs:
            reached_bytes = min((sent_bytes[feeder] for feeder in spec.upstream), default=0.0) + spec.window_bytes
            sent_bytes[spec.flow] = min(spec.size_bytes, reached_bytes)
    assert all(sent_bytes[spec.flow] == pytest.approx(spec.size_bytes) for spec in specs)


@given(st.one_of(rings, ps_jobs))
def test_downstream_inverts_upstream(job: JobSpec) -> None:
    specs = flows_of(job)
    assert {(feeder, spec.flow) for spec in specs for feeder in spec.upstream} == {
        (flow, downstream) for flow, fed in downstream_of(specs).items() for downstream in fed
    }
    assert set(downstream_of(specs)) == {spec.flow for spec in specs}  # also those that feed no flow


def test_a_burst_is_an_exchange_of_its_own() -> None:
    """Of a fourth of the model: as many bytes in an iteration, in chunks of a fourth."""
    whole = JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1", "h2"), (), 12.0, 0.1, 10, 0.0, 0.0)
    for one, part in zip(flows_of(whole), flows_of(replace(whole, bursts=4)), strict=True):
        assert (part.flow, part.size_bytes, part.upstream) == (one.flow, one.size_bytes, one.upstream)
        assert part.window_bytes == one.window_bytes / 4
