"""The engine: deterministic, honest about latency, fair to every job, and flat in memory."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.messages.events import Effect, FlowReady, Send
from paceline.flowcore.messages.reports import Feedback, Report
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star, tree
from paceline.flowcore.policy import POLICIES
from paceline.sim.mixes import peak_load, random_mix
from paceline.sim.recording import Recording
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import RunResult, alone_iterations_s, run

pytestmark = pytest.mark.slow

MS = 1_000_000


def ring(name: str, *workers: str, compute_s: float = 0.2, jitter: float = 0.0) -> JobSpec:
    """Each worker sends 25 MB."""
    model_mb = 25.0 * len(workers) / (2 * (len(workers) - 1))
    return JobSpec(name, Pattern.ALLREDUCE, workers, (), model_mb, compute_s, None, 0.0, jitter)


def finished(scenario: Scenario, policy: str, **options: object) -> Simulation:
    simulation = Simulation(scenario, policy, scenario.seed, **options)  # type: ignore[arg-type]
    simulation.run()
    return simulation


# ---- Determinism ----


@given(st.integers(0, 1000), st.sampled_from(sorted(POLICIES)), st.sampled_from(["star", "tree"]))
@settings(max_examples=15)
def test_the_same_seed_gives_the_same_run(number: int, policy: str, kind: str) -> None:
    scenario = random_mix(number, 1, kind, duration_s=3.0)
    one, two = (finished(scenario, policy) for _ in range(2))
    assert [job.iteration_ends_ns for job in one.jobs.values()] == [job.iteration_ends_ns for job in two.jobs.values()]
    assert one.now_ns == two.now_ns


def test_another_seed_gives_another_run() -> None:
    scenario = random_mix(1, 1, duration_s=5.0)
    runs = [finished(replace(scenario, seed=seed), "paceline") for seed in (1, 2)]
    ends = [[job.iteration_ends_ns for job in one.jobs.values()] for one in runs]
    assert ends[0] != ends[1]


def test_watching_changes_nothing() -> None:
    """A recording and a journal only observe; the run is the same without them."""
    scenario = random_mix(2, 1, duration_s=5.0)
    entries: list[object] = []
    recording = Recording()
    seen = finished(scenario, "paceline", recording=recording, journal=lambda *entry: entries.append(entry))
    alone = finished(scenario, "paceline")
    assert [job.iteration_ends_ns for job in seen.jobs.values()] == [
        job.iteration_ends_ns for job in alone.jobs.values()
    ]
    assert entries
    assert recording.times_ns == sorted(recording.times_ns)
    assert len(recording.times_ns) == len(recording.rates_bps) > 10


# ---- Control latency ----


@pytest.mark.parametrize("latency_ms", [0.5, 2.0, 10.0])
def test_messages_take_their_time_and_keep_their_order(latency_ms: float) -> None:
    sent: dict[str, list[tuple[int, object]]] = {}
    arrived: dict[str, list[tuple[int, object]]] = {}

    def record(now_ns: int, actor: str, event: object, effects: list[Effect]) -> None:
        if isinstance(event, Report | Feedback):
            arrived.setdefault(actor, []).append((now_ns, event))
        for effect in effects:
            if isinstance(effect, Send):
                sent.setdefault(effect.to, []).append((now_ns + round(latency_ms * MS), effect.message))

    topology = tree(2, 2, 1, (1.0, 1.0, 1.0))
    jobs = (ring("a", "h0", "h2"), ring("b", "h1", "h3"), ring("c", "h0", "h1"))
    scenario = Scenario("latency", 1, 2.0, SlotsSpec(), topology, jobs, ())
    finished(scenario, "paceline", latency_ms=latency_ms, journal=record)
    assert any(isinstance(event, Feedback) for _, event in arrived["h0"])
    for actor, messages in sent.items():
        due = [entry for entry in messages if entry[0] <= 2000 * MS]
        got = [entry for entry in arrived.get(actor, []) if isinstance(entry[1], Report | Feedback)]
        wanted = [entry for entry in due if isinstance(entry[1], Report | Feedback)]
        assert got == wanted[: len(got)]
        assert len(wanted) - len(got) <= 8  # the last instant's may be cut off by the end


def test_the_first_grant_comes_a_round_trip_after_the_flow_is_ready() -> None:
    ready_ns: list[int] = []
    granted_ns: list[int] = []

    def record(now_ns: int, actor: str, event: object, _effects: list[Effect]) -> None:
        if actor == "h0" and isinstance(event, FlowReady):
            ready_ns.append(now_ns)
        if actor == "h0" and isinstance(event, Feedback) and len(granted_ns) < len(ready_ns):
            granted_ns.append(now_ns)

    scenario = Scenario("one", 1, 1.0, SlotsSpec(), star(2, 1.0), (ring("a", "h0", "h1"),), ())
    finished(scenario, "paceline", latency_ms=3.0, journal=record)
    assert ready_ns[0] == 200 * MS
    assert granted_ns[0] == 206 * MS


# ---- Planned load ----


@pytest.mark.parametrize("policy", ["mlcc", "paceline", "fifo", "srpt"])
def test_twenty_hosts_that_plan_in_the_same_instant_never_overbook_a_link(policy: str) -> None:
    """No jitter, the same compute time, all start at 0: every host plans at the same nanosecond."""
    hosts = [f"h{number}" for number in range(20)]
    pairs = [ring(f"pair{n}", hosts[n], hosts[(n + 1) % 20]) for n in range(20)]
    wide = [ring(f"wide{n}", *hosts[n::5]) for n in range(5)]
    served = [
        JobSpec(f"ps{n}", Pattern.PS, tuple(hosts[n : n + 3]), (hosts[n + 10],), 8.0, 0.2, None, 0.0, 0.0)
        for n in range(0, 8, 2)
    ]
    scenario = Scenario("twenty", 1, 1.5, SlotsSpec(), star(20, 1.0), (*pairs, *wide, *served), ())
    simulation = finished(scenario, policy)
    for switch in simulation.switches.values():
        assert switch.table.peak_ratio <= 1 + 1e-9
        assert switch.arbitration is None or switch.arbitration.peak_ratio <= 1 + 1e-9
    peaks = [switch.table.peak_ratio for switch in simulation.switches.values()]
    arbitrations = [switch.arbitration for switch in simulation.switches.values()]
    peaks += [arbitration.peak_ratio for arbitration in arbitrations if arbitration is not None]
    assert max(peaks) > 0.9  # they did plan


# ---- No job starves ----

OVERLOADED = [number for number in range(60) if peak_load(random_mix(number, 7)) > 1.8][:4]


@pytest.mark.parametrize("number", OVERLOADED)
def test_under_overload_every_job_goes_on_and_none_pays_for_the_others(number: int) -> None:
    """Every job makes progress all the time, none is more than three times slower than under TCP."""
    scenario = random_mix(number, 7, duration_s=20.0)
    alone_s = alone_iterations_s(scenario, scenario.seed)
    fair = _slowdowns(run(scenario, "fair", alone_s=alone_s))
    ours = run(scenario, "paceline", alone_s=alone_s)
    for name, slowdown in _slowdowns(ours).items():
        assert slowdown <= 3.0 * fair[name]
    simulation = finished(scenario, "paceline")
    for name, job in simulation.jobs.items():
        ends_s = [0.0, *(end / 1e9 for end in job.iteration_ends_ns), 20.0]
        longest_s = max(end - start for start, end in pairwise(ends_s))
        assert longest_s <= 8 * fair[name] * alone_s[name] + 1.0


def _slowdowns(result: RunResult) -> dict[str, float]:
    return {job.name: job.slowdown for job in result.jobs}


@pytest.mark.parametrize("policy", ["paceline", "fifo", "fair"])
def test_equal_jobs_fare_equally(policy: str) -> None:
    jobs = tuple(ring(f"job{n}", "h0", "h1", jitter=0.03) for n in range(4))
    result = run(Scenario("equal", 1, 30.0, SlotsSpec(), star(2, 1.0), jobs, ()), policy)
    slowdowns = _slowdowns(result).values()
    assert max(slowdowns) <= 1.1 * min(slowdowns)


# ---- Memory ----


def entries(things: Iterable[object]) -> int:
    """Everything held in containers, two levels deep."""
    total = 0
    for thing in things:
        for value in vars(thing).values():
            if isinstance(value, dict | list | set | tuple):
                total += len(value)
                inner = value.values() if isinstance(value, dict) else value
                total += sum(len(item) for item in inner if isinstance(item, dict | list | set))
    return total


@pytest.mark.parametrize(
    "policy", sorted(POLICIES.keys() - {"crux", "mltcp-4", "mcs-pipelined"})
)  # which keep nothing of their own
def test_ten_times_longer_leaves_nothing_more(policy: str) -> None:
    topology = tree(2, 2, 1, (1.0, 1.0, 1.0))
    jobs = tuple(ring(f"job{n}", "h0", f"h{1 + n}", compute_s=0.1, jitter=0.05) for n in range(3))
    held = []
    for duration_s in (3.0, 30.0):
        simulation = finished(Scenario("long", 1, duration_s, SlotsSpec(), topology, jobs, ()), policy)
        agents = [*simulation.hosts.values(), *simulation.switches.values()]
        tables = [switch.table for switch in simulation.switches.values()]
        arbitrations = [switch.arbitration for switch in simulation.switches.values() if switch.arbitration is not None]
        timers = len(simulation._heap) + len(simulation._armed)
        held.append(entries([*agents, *tables, *arbitrations, simulation.network]) + timers)
    assert held[1] <= 2 * held[0]  # at its end a run may have more or fewer flows under way


def test_a_job_that_is_through_leaves_nothing_behind() -> None:
    jobs = tuple(replace(ring(f"job{n}", "h0", "h1"), iterations=3) for n in range(3))
    simulation = finished(Scenario("short", 1, None, SlotsSpec(), star(2, 1.0), jobs, ()), "paceline")
    assert all(job.finished for job in simulation.jobs.values())
    assert not simulation.network.channels
    assert not any(agent.flows or agent.jobs for agent in simulation.hosts.values())


def test_mlcc_works_without_a_switch() -> None:
    """A NIC's table does not see what arrives; not knowing a feeder must not look like a feeder that never moves."""
    job = JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.2, None, 0.0, 0.0)
    result = run(Scenario("cloud", 1, 12.0, SlotsSpec(), star(2, 1.0), (job,), ()), "mlcc", local=True)
    assert result.jobs[0].iterations > 15


def test_borrowing_does_not_push_aside_what_other_hosts_were_given() -> None:
    """h1 sends for both jobs into the rack of h3; its borrower must not halve what h5 was promised there."""
    jobs = (
        JobSpec("ps", Pattern.PS, ("h5", "h1"), ("h3",), 36.6, 0.402, None, 0.0, 0.03),
        JobSpec("ring", Pattern.ALLREDUCE, ("h1", "h2", "h4"), (), 14.9, 0.024, None, 0.0, 0.03),
    )
    scenario = Scenario("two racks", 1, 15.0, SlotsSpec(), tree(2, 2, 2, (1.0, 1.0, 2.0)), jobs, ())
    fair, ours = run(scenario, "fair"), run(scenario, "paceline")
    assert ours.mean_slowdown < 1.02 * fair.mean_slowdown
