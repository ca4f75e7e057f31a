"""Section IV of MLCC ("Dynamic Flow Scheduling for DNN Training Workloads in Data Centers"), claim by claim.

Where a claim is about what agents do, it is checked on the real agents running `mlcc`, alone with a scripted
switch or together in the simulator; where it is arithmetic, on the function that does it. Every docstring
names its section.
"""

import pytest

from paceline.flowcore.allocation.allocator import allocate
from paceline.flowcore.allocation.dependency import increased_bps
from paceline.flowcore.host.bandwidth import BandwidthEstimate, Sample
from paceline.flowcore.messages.events import Effect, Limit, Send
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.patterns import FlowId, Role, flows_of
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.switch.load_table import LoadTable
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import run
from tests.flowcore.paper_setup import (
    GBPS,
    HORIZON,
    INF,
    SLOT_NS,
    Switch,
    Worker,
    measured,
    parameter_server,
    ring,
    scenario,
)

# ---- IV-A: switch load table and link load feedback ----


def test_iv_a_a_flows_rates_are_added_to_every_link_on_its_path() -> None:
    """§IV-A, Fig. 5: 5 Gbit/s in t1 and 20 Gbit/s in t2 appear in the rows of l1 and l4 and nowhere else."""
    table = LoadTable(dict.fromkeys(["l1", "l2", "l3", "l4"], 40 * GBPS), HORIZON)
    resident, passing = (FlowId(job, "a", "b", Role.RING) for job in ("resident", "passing"))
    table.renew(resident, ["l1", "l2"], 0)
    table.enter({resident: (10 * GBPS, 15 * GBPS)}, 0, 0)
    table.renew(passing, ["l1", "l4"], 0)
    assert table.enter({passing: (5 * GBPS, 20 * GBPS)}, 0, 0)[passing]
    rows = {link: [table.load_bps(link, slot) / GBPS for slot in (0, 1, 2)] for link in table.capacity_bps}
    assert rows == {"l1": [15, 35, 0], "l2": [10, 15, 0], "l3": [0, 0, 0], "l4": [5, 20, 0]}


def test_iv_a_the_path_load_is_the_sum_of_its_links_in_the_same_slot() -> None:
    """§IV-A: "The load of links in the flow's path in the same time slot is summed up"."""
    switch = Switch()
    switch.report("h0", FlowId("a", "h0", "h2", Role.RING), (3e8, 1e8))
    switch.report("h3", FlowId("b", "h3", "h1", Role.RING), (5e8, 0.0, 2e8))
    asking = FlowId("c", "h0", "h1", Role.RING)  # h0->sw of a, sw->h1 of b
    grant = switch.report("h0", asking)[asking]
    assert grant.load[:4] == pytest.approx((0.8, 0.1, 0.2, 0.0))
    assert grant.available_bps[:4] == pytest.approx((5e8, 9e8, 8e8, GBPS))
    assert len(grant.load) == HORIZON


def test_iv_a_an_update_replaces_the_flows_plan() -> None:
    """§IV-A: updating a plan replaces the old one, it never adds to it."""
    switch = Switch()
    flow, other = FlowId("a", "h0", "h2", Role.RING), FlowId("b", "h0", "h1", Role.RING)
    for _ in range(3):
        assert switch.report("h0", flow, (6e8,) * HORIZON)[flow].accepted
    assert switch.report("h0", other)[other].load[0] == pytest.approx(0.6)


def test_iv_a_a_flow_does_not_see_its_own_plan() -> None:
    """§IV-A, §IV-B: b_l(t) is "the total traffic of other concurrent jobs"."""
    switch = Switch()
    flow = FlowId("a", "h0", "h2", Role.RING)
    switch.report("h0", flow, (6e8,) * HORIZON)
    assert switch.report("h0", flow)[flow].load == (0.0,) * HORIZON


def test_iv_a_the_transmission_status_of_dependent_flows_comes_back_with_the_loads() -> None:
    """§IV-A: the feedback also carries the status of the receiver's outgoing flows."""
    switch = Switch()
    first, second = FlowId("r", "h0", "h1", Role.RING), FlowId("r", "h1", "h2", Role.RING)
    switch.report("h0", first, sent_bytes=7e6, downstream=(second,))
    assert switch.report("h1", second, sent_bytes=2e6, upstream=(first,))[second].upstream_bytes == 7e6
    assert switch.report("h0", first, sent_bytes=8e6, downstream=(second,))[first].downstream_bytes == 2e6


# ---- IV-B: Algorithm 1 ----


def test_iv_b_constraint_3_the_whole_tensor_is_sent() -> None:
    """§IV-B (3): t̂ Σ r_f(t) ≥ G_f, and not more either."""
    host = Worker(ring("h0", "h1"))
    host.ready()
    plan = host.plan(available_bps=(3e8,) * 4 + (GBPS,) * 6)
    planned_bytes = plan[0] * (SLOT_NS - host.into_slot_ns) / 8e9 + sum(plan[1:]) * SLOT_NS / 8e9
    assert planned_bytes == pytest.approx(host.remaining_bytes)


@pytest.mark.parametrize("hosts", [2, 4])
def test_iv_b_constraint_4_no_link_is_planned_above_its_capacity(hosts: int) -> None:
    """§IV-B (4), (7): in every slot the planned rates of all jobs on a link stay within u_l."""
    jobs = [ring(*(f"h{rank}" for rank in range(hosts)), name=f"job{number}") for number in range(4)]
    simulation = Simulation(scenario(jobs, hosts=hosts, duration_s=5.0), "mlcc", 1)
    simulation.run()
    peaks = [switch.table.peak_ratio for switch in simulation.switches.values()]
    assert 0.9 < max(peaks) <= 1 + 1e-9


def test_iv_b_constraint_5_rates_are_not_negative() -> None:
    """§IV-B (5): even where other flows have planned everything, and where the adjustment takes all away."""
    host = Worker(ring("h0", "h1"))
    host.ready()
    assert min(host.plan(available_bps=(0.0, GBPS) * 5, upstream_ahead_bytes=-1e9)) >= 0.0


def test_iv_b_slots_are_filled_in_the_order_of_path_load() -> None:
    """§IV-B, Alg. 1 lines 2–6: least loaded slots first, each as far as the path has room, ties by time."""
    schedule = allocate(6.0, [2.0] * 5, [0.9, 0.1, 0.5, 0.1, 0.9], weight=100.0)
    assert schedule.volume_bytes == (0.0, 2.0, 2.0, 2.0, 0.0)
    assert allocate(3.0, [2.0] * 4, [0.5] * 4, weight=0.0).volume_bytes == (2.0, 1.0, 0.0, 0.0)


def test_iv_b_a_rate_never_exceeds_the_least_room_on_the_path() -> None:
    """§IV-B, Alg. 1 line 6: r ≤ min_l (u_l(t) − b_l(t))."""
    available_bps = tuple(float(slot % 3) * 4e8 for slot in range(HORIZON))
    host = Worker(ring("h0", "h1"))
    host.ready()
    plan = host.plan(available_bps=available_bps, load=tuple(1.0 - rate / GBPS for rate in available_bps))
    assert all(rate <= free * (1 + 1e-9) for rate, free in zip(plan, available_bps, strict=True))


@pytest.mark.parametrize(("now_load", "beta"), [(0.5, 1), (0.99, 1), (1.5, 2), (3.0, 2)])
def test_iv_b_algorithm_1_takes_the_cheapest_completion_time(now_load: float, beta: int) -> None:
    """§IV-B, Alg. 1 lines 10–13: ending one slot later is chosen when the path load it avoids costs more."""
    schedule = allocate(5.0, [5.0, 5.0, 5.0], [now_load, 0.0, 0.0])
    assert schedule.finish_slots == beta
    assert schedule.cost == min(1 + now_load, 2.0)


def test_iv_b_a_flow_that_outlasts_the_horizon_uses_all_there_is() -> None:
    """§IV-B: "or there are not enough available time slots": everything available in all K slots."""
    host = Worker(ring("h0", "h1", model_mb=500.0))
    host.ready()
    available_bps = tuple(1e8 * slot for slot in range(1, HORIZON + 1))
    plan = host.plan(available_bps=available_bps, load=(0.3,) * HORIZON)
    assert plan == pytest.approx(available_bps)


def test_iv_b_flows_that_plan_after_each_other_are_staggered() -> None:
    """§IV-B: what the price is for, "staggering flows temporally": the second avoids the first's slots."""
    switch = Switch()
    first, second = Worker(ring("h0", "h1", name="a")), Worker(ring("h0", "h1", name="b"))
    plans = []
    for worker in (first, second):
        worker.ready()
        grant = switch.report("h0", worker.flow)[worker.flow]
        plan = worker.plan(available_bps=grant.available_bps, load=grant.load)
        assert switch.report("h0", worker.flow, plan)[worker.flow].accepted
        plans.append(plan)
    busy = [[slot for slot, rate in enumerate(plan) if rate > 0.5 * GBPS] for plan in plans]
    assert busy[0] and busy[1]
    assert not set(busy[0]) & set(busy[1])
    assert max(busy[0]) < min(busy[1])


# ---- IV-C: distributed schedulers ----


def test_iv_c_in_every_slot_fetch_then_plan_then_adjust_then_update() -> None:
    """§IV-C, control protocol: loads are fetched as a slot begins, the answer brings all the rest."""
    jobs = [ring("h0", "h1", name="a"), ring("h0", "h1", name="b", compute_s=0.31)]
    steps: dict[str, list[tuple[int, str]]] = {"h0": [], "h1": []}

    def record(now_ns: int, actor: str, event: object, effects: list[Effect]) -> None:
        if actor not in steps:
            return
        for effect in effects:
            if isinstance(effect, Limit) and isinstance(event, Feedback):
                steps[actor].append((now_ns, "adjust"))
            elif isinstance(effect, Send) and isinstance(effect.message, Report) and effect.message.claims:
                planned = bool(effect.message.claims[0].plan_bps)
                steps[actor].append((now_ns, "update" if planned else "fetch"))

    Simulation(scenario(jobs, duration_s=3.0), "mlcc", 1, journal=record).run()
    for taken in steps.values():
        fetched_ns = [now_ns for now_ns, step in taken if step == "fetch"]
        assert len(fetched_ns) > 10
        assert all(now_ns % SLOT_NS == 0 for now_ns in fetched_ns)  # at the beginning of a slot, only there
        slots: dict[int, list[str]] = {}
        for now_ns, step in taken:
            slots.setdefault(now_ns // SLOT_NS, []).append(step)
        for sequence in slots.values():
            assert sequence[0] == "fetch"
            order = [step for step in dict.fromkeys(sequence) if step != "adjust"]
            assert order in (["fetch"], ["fetch", "update"])
        # The rate is adjusted in the very step that sends the update; a refusal may adjust it once more.
        updated_ns = {now_ns for now_ns, step in taken if step == "update"}
        adjusted_ns = {now_ns for now_ns, step in taken if step == "adjust"}
        assert updated_ns & adjusted_ns
        assert {now_ns // SLOT_NS for now_ns in adjusted_ns} <= {now_ns // SLOT_NS for now_ns in updated_ns}


def test_iv_c_a_flow_that_becomes_ready_inside_a_slot_waits_for_the_next() -> None:
    """§IV-C, "At the beginning of a time slot": quantisation."""
    host = Worker(ring("h0", "h1"))
    effects = host.ready(at_ns=SLOT_NS // 2)
    assert not any(isinstance(effect, Send) for effect in effects)
    assert host.agent.next_deadline() == SLOT_NS


# This slot is dear and the later ones are free, so that Algorithm 1 alone sends nothing now: what is sent is Δ.
LATER = (99.0,) + (0.0,) * (HORIZON - 1)


def test_iv_c_ps_aggregation_catches_up_with_the_furthest_broadcast() -> None:
    """§IV-C, Fig. 6(a): the worker sending f1 raises it by Δ = (F_b^max − F_1)+."""
    host = Worker(parameter_server(), sender="h0")
    host.ready()
    assert host.sends_now(load=LATER, downstream_ahead_bytes=0.0) == 0.0
    assert host.sends_now(load=LATER, downstream_ahead_bytes=3e6) == pytest.approx(3e6)


def test_iv_c_ps_broadcast_catches_up_with_the_least_aggregated() -> None:
    """§IV-C, Fig. 6(a): the server raises f3 by Δ = (F_a^min − F_3)+."""
    host = Worker(parameter_server(), sender="h2")
    host.ready()
    assert host.sends_now(load=LATER, upstream_ahead_bytes=0.0) == 0.0
    assert host.sends_now(load=LATER, upstream_ahead_bytes=2e6) == pytest.approx(2e6)


def test_iv_c_ring_catches_up_with_the_flow_that_feeds_it() -> None:
    """§IV-C, Fig. 6(b): the worker sending f6 raises it by Δ = (F_5 − F_6)+."""
    host = Worker(ring("h0", "h1", "h2"), sender="h1")
    host.ready()
    assert host.sends_now(load=LATER, upstream_ahead_bytes=0.0) == 0.0
    assert host.sends_now(load=LATER, upstream_ahead_bytes=1e6) == pytest.approx(1e6)


def test_iv_c_algorithm_2_lines_5_to_11() -> None:
    """§IV-C, Alg. 2: Δ = 0 → r; r + Δ < B_i → r + Δ; else → B_i."""
    assert increased_bps(3e8, 0.0, 5e8) == 3e8
    assert increased_bps(3e8, 1e8, 5e8) == 4e8
    assert increased_bps(3e8, 2e8, 5e8) == 5e8
    assert increased_bps(3e8, 9e8, 5e8) == 5e8


def test_iv_c_the_increase_is_bounded_by_the_measured_bandwidth() -> None:
    """§IV-C, Alg. 2 line 11, on the agent: it was promised 1 Gbit/s, got 0.2, and does not ask for more."""
    host = Worker(ring("h0", "h1"))
    host.ready()
    assert host.plan()[0] == pytest.approx(GBPS)
    host.network_bps = 2e8
    got_bps = 2e8 * (SLOT_NS - host.into_slot_ns) / SLOT_NS  # until the loads arrived it sent nearly nothing
    assert host.plan(load=LATER, upstream_ahead_bytes=1e9)[0] == pytest.approx(got_bps, rel=0.01)


def test_iv_c_what_the_increase_leaves_is_planned_over_later_slots() -> None:
    """§IV-C: "adjusts future time slots' transmission rates of the flow accordingly"."""
    host = Worker(parameter_server(), sender="h2")
    host.ready()
    plan = host.plan(load=LATER, upstream_ahead_bytes=2e6)
    now_bytes = plan[0] * (SLOT_NS - host.into_slot_ns) / 8e9
    assert now_bytes == pytest.approx(2e6)
    assert now_bytes + sum(plan[1:]) * SLOT_NS / 8e9 == pytest.approx(host.remaining_bytes)


def test_iv_c_a_broadcast_is_reduced_to_what_was_aggregated() -> None:
    """§IV-C, lines 13–16 (i): each broadcast flow is reduced by (F_j − F_a^min)+."""
    host = Worker(parameter_server(), sender="h2")
    host.ready()
    assert host.sends_now(upstream_ahead_bytes=4e6) == pytest.approx(4e6)  # the slot had room for 7
    assert host.sends_now(upstream_ahead_bytes=0.0) == 0.0


def test_iv_c_a_ring_flow_is_reduced_to_what_arrived_and_its_own_chunk() -> None:
    """§IV-C, lines 13–16 (ii), with the window of patterns.py: the first chunk is the sender's own."""
    host = Worker(ring("h0", "h1", "h2", model_mb=6.0), sender="h1")
    host.ready()
    assert host.sends_now(upstream_ahead_bytes=0.0) == pytest.approx(2e6)
    assert host.sends_now(upstream_ahead_bytes=1e6) == pytest.approx(3e6)
    assert host.sends_now(upstream_ahead_bytes=-2e6) == 0.0


def test_iv_c_the_released_bandwidth_is_free_for_other_jobs() -> None:
    """§IV-C: "The released bandwidth can then be utilized for other co-located jobs' flows"."""
    switch = Switch()
    host = Worker(parameter_server(), sender="h2")
    host.ready()
    plan = host.plan(load=LATER, upstream_ahead_bytes=0.0)
    assert switch.report("h2", host.flow, plan)[host.flow].accepted
    other = FlowId("other", "h2", host.flow.target, Role.RING)
    assert switch.report("h2", other)[other].available_bps[0] == GBPS


def test_iv_c_bandwidth_is_the_maximum_of_four_slots() -> None:
    """§IV-C: B_i is "the maximum flow sending rate over a past time window (4 time slots)"."""
    estimate = BandwidthEstimate(10 * GBPS)
    for slot, gbps in enumerate([3, 1, 1, 1, 1]):
        estimate.observe(slot, Sample(gbps * GBPS, INF))
        assert estimate.value(slot) == pytest.approx((3 if slot < 4 else 1) * GBPS)


@pytest.mark.parametrize("pattern", [Pattern.PS, Pattern.ALLREDUCE])
def test_iv_c_dependent_flows_never_overtake_those_that_feed_them(pattern: Pattern) -> None:
    """§IV-C, both constraints, in what hosts plan: F of a flow ≤ F of each feeder (+ the ring's own chunk)."""
    job = parameter_server() if pattern is Pattern.PS else ring("h0", "h1", "h2")
    rival = ring("h0", "h2", name="rival", compute_s=0.13)
    specs = {spec.flow: spec for spec in flows_of(job)}
    planned: dict[FlowId, float] = {}

    def watch(_now_ns: int, _actor: str, event: object, _effects: list[Effect]) -> None:
        if not isinstance(event, Report):
            return
        for claim in event.claims:
            if claim.flow in specs and claim.plan_bps:
                planned[claim.flow] = claim.sent_bytes + claim.planned_bytes
                spec = specs[claim.flow]
                for feeder in spec.upstream:
                    known = planned.get(feeder, 0.0)
                    assert planned[claim.flow] <= known + spec.window_bytes + slack_bytes

    # A host plans on what the hosts upstream had told the switch when it asked. Where a feeder's plan was then
    # refused, or it sent less than planned, F was too large: by no more than what moves in 10 ms at line rate.
    slack_bytes = GBPS * 0.010 / 8
    Simulation(scenario([job, rival], hosts=3, duration_s=5.0), "mlcc", 1, journal=watch).run()
    assert planned


# ---- V: update_schedule() answers with a status ----


def test_v_of_two_hosts_that_plan_the_same_empty_slot_one_is_refused() -> None:
    """§V: update_schedule() responds "with a status code indicating success or not"."""
    switch = Switch()
    one, two = FlowId("a", "h0", "h1", Role.RING), FlowId("b", "h2", "h1", Role.RING)
    for flow in (one, two):
        assert switch.report(flow.source, flow)[flow].available_bps[0] == GBPS  # both see it empty
    assert switch.report("h0", one, (GBPS,) * HORIZON)[one].accepted
    refused = switch.report("h2", two, (GBPS,) * HORIZON)[two]
    assert not refused.accepted
    assert refused.available_bps == (0.0,) * HORIZON


# ---- VI-H: public cloud ----


@pytest.mark.parametrize("policy", ["fifo", "paceline"])
def test_vi_h_without_switches_the_hosts_manage_alone(policy: str) -> None:
    """§VI-H: hosts keep their own NIC's table and exchange nothing; jobs lose nothing against plain TCP."""
    sent: list[Send] = []

    def watch(_now_ns: int, _actor: str, _event: object, effects: list[Effect]) -> None:
        sent.extend(effect for effect in effects if isinstance(effect, Send))

    jobs = [ring("h0", "h1", name="a"), ring("h0", "h1", name="b")]
    cloud = run(scenario(jobs, duration_s=12.0), policy, local=True, journal=watch)
    assert sent == []
    assert all(job.iterations > 15 for job in cloud.jobs)
    assert cloud.mean_slowdown < 1.02 * measured("fair", 2, (0.2, 0.2)).mean_slowdown
