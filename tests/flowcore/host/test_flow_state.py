"""A flow as its host knows it: volumes over all iterations, promises that count, and samples of the network alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.host.bandwidth import BandwidthEstimate, Sample
from paceline.flowcore.host.flow_state import FlowState, JobFlows
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.events import JobJoined, Limit
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.units import UNLIMITED, transfer_bytes
from tests.flowcore.host.scripted_host import GBPS, INF, SIZE_BYTES, SLOT_NS, Host, grant

FLOW = FlowId("a", "h0", "h1", Role.RING)
SPEC = FlowSpec(FLOW, SIZE_BYTES, (), INF)
SLOTFUL = transfer_bytes(GBPS, SLOT_NS)


def flow_of(spec: FlowSpec = SPEC) -> FlowState:
    return FlowState(spec=spec, path=("h0->sw", "sw->h1"), downstream=(), bandwidth=BandwidthEstimate(GBPS))


def sending(rate_bps: float = GBPS, spec: FlowSpec = SPEC) -> FlowState:
    flow = flow_of(spec)
    flow.begin(0, 0)
    flow.limit = Limit(FLOW, rate_bps, rate_bps)
    return flow


@given(st.integers(0, 10**6), st.floats(0.0, SIZE_BYTES))
def test_volumes_count_over_all_iterations(iteration: int, sent_bytes: float) -> None:
    flow = flow_of()
    flow.begin(iteration, 0)
    flow.observe(sent_bytes, 1)
    assert flow.volume_bytes == iteration * SIZE_BYTES + sent_bytes
    assert flow.volume_bytes + flow.remaining_bytes == pytest.approx(flow.final_bytes)
    flow.begin(iteration + 1, 2)
    assert flow.volume_bytes == (iteration + 1) * SIZE_BYTES and flow.remaining_bytes == SIZE_BYTES


def test_a_plan_says_nothing_about_slots_it_does_not_reach() -> None:
    flow = flow_of()
    flow.plan_bps, flow.plan_slot = (1e8, 2e8), 7
    assert [flow.planned_bps(slot) for slot in (6, 7, 8, 9)] == [0.0, 1e8, 2e8, 0.0]


# ---- Promises ----


@given(st.lists(st.tuples(st.floats(0.0, 2 * GBPS) | st.just(UNLIMITED), st.integers(0, SLOT_NS), st.booleans())))
def test_promised_is_the_rate_in_force_over_the_time_it_was(steps: list[tuple[float, int, bool]]) -> None:
    """Wherever counters are read between the changes. No more than the line rate is ever promised."""
    flow, now_ns, promised_bytes = sending(), 0, 0.0
    for rate_bps, elapsed_ns, read in steps:
        flow.add_promise(now_ns)
        flow.limit = Limit(FLOW, rate_bps, rate_bps)
        now_ns += elapsed_ns
        promised_bytes += transfer_bytes(min(rate_bps, GBPS), elapsed_ns)
        if read:
            flow.observe(0.0, now_ns)
    flow.observe(0.0, now_ns)
    assert flow.promised_bytes == pytest.approx(promised_bytes)


def test_promises_count_while_there_is_something_to_send() -> None:
    flow = sending(GBPS / 2)
    flow.observe(1e6, SLOT_NS)
    assert flow.promised_bytes == pytest.approx(SLOTFUL / 2)
    flow.observe(1e6, 2 * SLOT_NS, idle=True)
    assert flow.promised_bytes == pytest.approx(SLOTFUL / 2)
    flow.observe(2e6, 3 * SLOT_NS)
    assert flow.promised_bytes == pytest.approx(SLOTFUL), "the idle slot is not made up for"


@pytest.mark.parametrize(("upstream_bytes", "counts"), [(1e6, False), (3e6, False), (5e6, True), (INF, True)])
def test_a_flow_that_waits_for_its_upstream_was_promised_nothing(upstream_bytes: float, counts: bool) -> None:
    """It has sent 5 MB, and may be 2 MB ahead of the flows that feed it."""
    flow = sending(spec=replace(SPEC, window_bytes=2e6))
    flow.take_grant(grant(FLOW, GBPS, upstream_bytes=upstream_bytes), 0)
    flow.observe(5e6, SLOT_NS)
    assert flow.promised_bytes == pytest.approx(SLOTFUL if counts else 0.0)


def test_between_iterations_nothing_is_promised() -> None:
    flow = sending()
    flow.observe(SIZE_BYTES, SLOT_NS)
    flow.begin(1, 10 * SLOT_NS)
    flow.observe(0.0, 11 * SLOT_NS)
    assert flow.promised_bytes == pytest.approx(2 * SLOTFUL)


@given(st.integers(-(10**15), 10**15))
def test_a_clock_that_is_set_promises_nothing_and_forgets_what_slots_date(by_ns: int) -> None:
    flow = sending()
    flow.take_grant(grant(FLOW, GBPS), 0)
    flow.plan_bps, flow.replanned_slot = (1e8,), 3
    flow.bandwidth.observe(0, Sample(1e8, INF))
    flow.clock_set(by_ns)
    flow.observe(1e6, by_ns + SLOT_NS)
    assert flow.promised_bytes == pytest.approx(SLOTFUL)
    assert flow.grant is None and not flow.plan_bps and flow.replanned_slot == -1
    assert flow.bandwidth.value(0) == GBPS


# ---- Samples of B_i, slot by slot as the agent closes them ----


@pytest.mark.parametrize(("upstream_bytes", "bandwidth_bps"), [(INF, 2e8), (0.0, GBPS)])
def test_a_flow_that_waits_for_its_upstream_is_no_sample_of_the_network(
    upstream_bytes: float, bandwidth_bps: float
) -> None:
    host = Host("fifo", sends_bps=2e8)
    host.tell(JobJoined("a", (replace(SPEC, window_bytes=0.0),)))
    host.ready(FLOW, 0)
    for slot in range(4):
        host.answer(grant(FLOW, GBPS, upstream_bytes=upstream_bytes), at_ns=slot * SLOT_NS + 1)
        host.until((slot + 1) * SLOT_NS)
    assert host.agent.flows[FLOW].bandwidth.value(4) == pytest.approx(bandwidth_bps, rel=0.01)


# ---- The flows of a job ----


def stalled(slot: int) -> FlowState:
    flow = sending()
    flow.stalls.observe(slot, SLOT_NS, SLOT_NS, GBPS, 0.0)
    assert flow.stalls.unused and not flow.stalls.may_claim(slot, SLOT_NS, SIZE_BYTES)
    return flow


def test_a_clock_that_is_set_back_does_not_make_a_stalled_flow_wait_for_it() -> None:
    flow = stalled(1000)
    flow.clock_set(-900 * SLOT_NS)
    assert flow.stalls.may_claim(100, SLOT_NS, SIZE_BYTES)


def test_a_new_iteration_is_not_blamed_for_the_one_before() -> None:
    flow = stalled(1)
    flow.all_sent()
    flow.begin(1, 2 * SLOT_NS)
    assert not flow.stalls.unused


def test_what_remains_of_a_job_is_by_bytes() -> None:
    small, large = flow_of(), flow_of(replace(SPEC, size_bytes=3 * SIZE_BYTES))
    job = JobFlows(JobProgress(0), [small, large])
    assert job.remaining_share == 1.0
    small.sent_bytes = SIZE_BYTES
    assert (job.size_bytes, job.remaining_share) == (4 * SIZE_BYTES, 0.75)


def test_of_a_job_that_sends_nothing_nothing_remains() -> None:
    assert JobFlows(JobProgress(0)).remaining_share == 0.0
