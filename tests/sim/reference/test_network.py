"""The fluid network: bytes are conserved, links are respected, and nothing is forwarded before it arrived."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role, flows_of
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Pattern, Scenario
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES
from paceline.sim.mixes import random_mix
from paceline.sim.reference.engine import Simulation
from paceline.sim.reference.network import FluidNetwork, htb

pytestmark = pytest.mark.slow

GBPS = 1e9
MS = 1_000_000

# A flow counts as caught up within 64 bytes; a hop more for each flow it waits through.
AHEAD_BYTES = 1000.0


def flow(source: str, target: str, job: str = "a") -> FlowId:
    return FlowId(job, source, target, Role.PUSH)


def network(*flows: FlowId, size_bytes: float = 12.5e6) -> FluidNetwork:
    """12.5 MB are 100 ms at 1 Gbit/s."""
    net = FluidNetwork(star(4, 1.0))
    net.add(FlowSpec(one, size_bytes, (), inf) for one in flows)
    for one in flows:
        net.start(one)
    return net


def finish_times_ns(net: FluidNetwork) -> dict[FlowId, int]:
    ends = {}
    while (change_ns := net.next_change_ns()) is not None:
        net.advance(change_ns)
        net.touch()
        ends |= dict.fromkeys(net.finished(), change_ns)
    return ends


# ---- Rates ----


def test_a_flow_alone_has_the_line_rate() -> None:
    one = flow("h0", "h1")
    assert finish_times_ns(network(one)) == {one: 100 * MS}


def test_flows_on_one_link_share_it_and_the_last_has_it_to_itself() -> None:
    one, two = flow("h0", "h1"), flow("h2", "h1")
    net = network(one)
    net.add([FlowSpec(two, 25e6, (), inf)])
    net.start(two)
    assert finish_times_ns(net) == {one: 200 * MS, two: 300 * MS}


def test_a_ceiling_holds_and_what_it_leaves_is_taken() -> None:
    one, two = flow("h0", "h1"), flow("h2", "h1")
    net = network(one, two)
    net.limit(one, 2e8, 2e8)
    assert net.rates() == pytest.approx({one: 2e8, two: 8e8})
    net.limit(one, inf, inf)
    assert net.rates() == pytest.approx({one: 5e8, two: 5e8})


def test_on_its_own_nic_a_host_serves_guarantees_first() -> None:
    one, two = flow("h0", "h1"), flow("h0", "h2")
    net = network(one, two)
    net.limit(one, 9e8, GBPS)
    net.limit(two, 1e6, GBPS)
    rates = net.rates()
    assert rates[one] == pytest.approx(9e8, rel=0.1)
    assert sum(rates.values()) == pytest.approx(GBPS)
    assert rates[one] > 8 * rates[two]


def test_inside_the_network_a_guarantee_is_worth_nothing() -> None:
    one, two = flow("h0", "h1"), flow("h2", "h1")
    net = network(one, two)
    net.limit(one, 9e8, GBPS)
    assert net.rates() == pytest.approx({one: 5e8, two: 5e8})


def test_a_flow_waits_for_what_feeds_it() -> None:
    """A pull of a server: it may have the line rate, but its push comes in at a tenth of it."""
    push, pull = flow("h0", "h1"), FlowId("a", "h1", "h2", Role.PULL)
    net = FluidNetwork(star(3, 1.0))
    net.add([FlowSpec(push, 12.5e6, (), inf), FlowSpec(pull, 12.5e6, (push,), 0.0)])
    net.limit(push, 1e8, 1e8)
    net.start(push)
    net.start(pull)
    assert net.rates() == pytest.approx({push: 1e8, pull: 1e8})
    ends = finish_times_ns(net)
    assert ends[push] == 1000 * MS
    assert ends[pull] == pytest.approx(1000 * MS, abs=MS // 100)


def test_a_flow_without_a_path_is_as_fast_as_memory() -> None:
    local = flow("h0", "h0")
    assert finish_times_ns(network(local))[local] < MS


def test_stopping_drops_what_is_left() -> None:
    one, two = flow("h0", "h1"), flow("h2", "h1")
    net = network(one, two)
    net.stop(one)
    assert net.rates() == {two: GBPS}


# ---- HTB ----

rates = st.floats(0.0, 2e9)


@given(st.lists(st.tuples(rates, rates), min_size=1, max_size=6), st.floats(1e6, 2e9))
def test_htb(classes: list[tuple[float, float]], capacity: float) -> None:
    wanted, guaranteed = [want for want, _ in classes], [promise for _, promise in classes]
    got = htb(wanted, guaranteed, capacity)
    assert all(0.0 <= rate <= want * (1 + 1e-9) for rate, want in zip(got, wanted, strict=True))
    assert sum(got) == pytest.approx(min(capacity, sum(wanted)), rel=1e-9)  # nothing is left unused
    firm = [min(pair) for pair in classes]
    if sum(firm) <= capacity:
        assert all(rate >= promise * (1 - 1e-9) for rate, promise in zip(got, firm, strict=True))


def test_htb_lends_equally() -> None:
    assert htb([1e9, 1e9], [4e8, 2e8], 1e9) == pytest.approx([6e8, 4e8])


def test_htb_divides_broken_promises_equally() -> None:
    assert htb([1e9, 1e9], [9e8, 9e8], 1e9) == pytest.approx([5e8, 5e8])


# ---- Laws, watched at every event of random scenarios ----


def watched(scenario: Scenario, policy: str, check: Callable[[FluidNetwork], None]) -> Simulation:
    """A finished run in which `check` saw the network whenever time was about to pass, and after it had."""
    simulation = Simulation(scenario, policy, scenario.seed)
    net = simulation.network
    advance = net.advance

    def checked(now_ns: int) -> None:
        check(net)
        advance(now_ns)
        check(net)

    net.advance = checked  # type: ignore[method-assign]
    simulation.run()
    return simulation


def links_respected(net: FluidNetwork) -> None:
    load = dict.fromkeys(range(len(net.links)), 0.0)
    for one, rate in net.rates().items():
        for link in net.channels[one].path:
            load[link] += rate
    for link, bps in load.items():
        assert bps <= net.capacity_bps[link] * (1 + 1e-9)


def nothing_forwarded_early(net: FluidNetwork) -> None:
    for channel in net.channels.values():
        for feeder in channel.upstream:
            assert channel.sent_bytes <= feeder.sent_bytes + channel.window_bytes + AHEAD_BYTES


mixes = st.builds(
    random_mix,
    st.integers(0, 10_000),
    st.integers(0, 3),
    st.sampled_from(["star", "tree"]),
    st.just(2.0),
)
policies = st.sampled_from(sorted(POLICIES))


@given(mixes, policies)
@settings(max_examples=20)
def test_no_link_ever_carries_more_than_its_capacity(scenario: Scenario, policy: str) -> None:
    assert watched(scenario, policy, links_respected).now_ns > 0


@given(mixes, policies)
@settings(max_examples=20)
def test_nothing_is_ever_forwarded_before_it_arrived(scenario: Scenario, policy: str) -> None:
    """F_i ≤ min_j F_j + W_i, for rings and parameter servers, at every event (§IV-C)."""
    assert watched(scenario, policy, nothing_forwarded_early).now_ns > 0


@given(mixes, policies, st.integers(1, 3))
@settings(max_examples=20)
def test_every_byte_of_every_iteration_is_delivered(scenario: Scenario, policy: str, iterations: int) -> None:
    jobs = tuple(replace(job, iterations=iterations) for job in scenario.jobs)
    simulation = Simulation(replace(scenario, jobs=jobs, duration_s=None), policy, 1)
    delivered: dict[FlowId, float] = {}
    remove = simulation.network.remove

    def counted(flows: object) -> None:
        gone = list(flows)  # type: ignore[call-overload]
        delivered.update((one, simulation.network.channels[one].sent_bytes) for one in gone)
        remove(gone)

    simulation.network.remove = counted  # type: ignore[method-assign]
    simulation.run()
    sizes = {spec.flow: spec.size_bytes for job in jobs for spec in flows_of(job)}
    assert delivered == pytest.approx({one: iterations * size for one, size in sizes.items()}, rel=1e-12)
    assert not simulation.network.channels


def test_cross_traffic_takes_its_share_and_no_more() -> None:
    """0.5 Gbit/s half of the time: a ring that fills the link alone gets the rest."""
    job = JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), 12.5, 0.0, None, 0.0, 0.0)
    bursts = CrossTraffic("h0", "h1", 1.0, (0.5, 0.5), 0.5)
    scenario = replace(random_mix(1, 1), topology=star(2, 1.0), jobs=(job,), duration_s=10.0)
    quiet = Simulation(scenario, "fair", 1)
    loud = watched(replace(scenario, cross_traffic=(bursts,)), "fair", links_respected)
    quiet.run()
    done = [len(run.jobs["a"].iteration_ends_ns) for run in (quiet, loud)]
    assert done[0] == 100
    assert done[1] == pytest.approx(75, abs=2)
