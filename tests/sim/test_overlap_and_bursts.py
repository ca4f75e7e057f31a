"""Jobs that compute beside their bursts, and jobs with several bursts per iteration."""

from dataclasses import replace
from itertools import pairwise

import pytest

from paceline.flowcore.messages.events import Effect, FlowDone, FlowReady, HostInput, IterationEnded, SwitchEvent
from paceline.flowcore.messages.journal import Entry
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.model.units import UNLIMITED
from paceline.flowcore.policy import POLICIES
from paceline.sim.array.engine import run_scenario
from paceline.sim.jobs import TrainingJob
from paceline.sim.mixes import peak_load
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import PolicyError, alone_iterations_s, link_shares, run

RING = JobSpec("ring", Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.3, 6, 0.0, 0.0)  # v = 0.2 s
RING_OF_FOUR = replace(RING, workers=("h0", "h1", "h2", "h3"))  # 0.3 s
PS = JobSpec("ps", Pattern.PS, ("h0", "h1"), ("h2",), 12.5, 0.3, 6, 0.0, 0.0)  # 0.2 s
PS_ON_A_WORKER = replace(PS, servers=("h0",))  # 0.1 s
EXCHANGES_S = [(RING, 0.2), (RING_OF_FOUR, 0.3), (PS, 0.2), (PS_ON_A_WORKER, 0.1)]


def scenario(*jobs: JobSpec, duration_s: float | None = None) -> Scenario:
    return Scenario("odd", 1, duration_s, SlotsSpec(), star(4, 1.0), jobs, ())


def simulate(job: JobSpec, policy: str = "fair") -> TrainingJob:
    simulation = Simulation(scenario(job), policy, 1)
    simulation.run()
    return simulation.jobs[job.name]


# ---- Alone ----


@pytest.mark.parametrize(("job", "exchange_s"), EXCHANGES_S)
@pytest.mark.parametrize("bursts", [1, 4])
@pytest.mark.parametrize("overlap", [0.0, 0.4, 0.9])
def test_alone_an_iteration_takes_what_the_formula_says(
    job: JobSpec, exchange_s: float, overlap: float, bursts: int
) -> None:
    job = replace(job, overlap=overlap, bursts=bursts)
    ends_s = [0.0, *(end_ns / 1e9 for end_ns in simulate(job).iteration_ends_ns)]
    expected_s = (1 - overlap) * 0.3 + max(overlap * 0.3, exchange_s)
    assert [end - start for start, end in pairwise(ends_s)] == pytest.approx([expected_s] * 6, abs=5e-6)
    assert job.alone_s(exchange_s) == pytest.approx(expected_s)
    assert alone_iterations_s(scenario(job), 1)[job.name] == pytest.approx(expected_s, abs=5e-6)


@pytest.mark.parametrize("policy", [name for name in POLICIES if not name.startswith("mlcc")])
@pytest.mark.parametrize("job", [RING, PS], ids=["ring", "ps"])
def test_alone_no_policy_costs_more_than_the_first_round_trips(policy: str, job: JobSpec) -> None:
    odd = replace(job, overlap=0.4, bursts=3)
    whole_first = POLICIES[policy].start_after and job is PS  # all is pushed before it is pulled
    expected_s = 6 * odd.alone_s(0.4 if whole_first else 0.2)
    assert simulate(odd, policy).iteration_ends_ns[-1] / 1e9 == pytest.approx(expected_s, rel=0.002)


def test_computing_is_drawn_once_per_iteration_whatever_its_pieces() -> None:
    drawn = [TrainingJob(replace(RING, jitter=0.1, bursts=bursts, overlap=0.5), 1) for bursts in (1, 3)]
    one, three = (job.workers["h0"] for job in drawn)
    before_ns, beside_ns = drawn[0].piece_ns(one)
    pieces = []
    for burst in range(3):
        three.burst = burst
        pieces.append(drawn[1].piece_ns(three))
    assert sum(before for before, _ in pieces) == pytest.approx(before_ns, abs=5)
    assert sum(beside for _, beside in pieces) == pytest.approx(beside_ns, abs=5)
    assert before_ns == pytest.approx(beside_ns, abs=1)


def test_shares_and_loads_are_those_of_the_shorter_iteration() -> None:
    """v = 0.2 s of an iteration that takes 0.5 s in a row, and 0.3 s where two thirds of the computing are hidden."""
    hidden = replace(RING, overlap=2 / 3)
    one = scenario(hidden)
    alone_s = alone_iterations_s(one, 1)["ring"]
    assert max(link_shares(hidden, one, alone_s).values()) == pytest.approx(0.2 / 0.3, abs=1e-4)
    assert peak_load(one) == pytest.approx(0.2 / 0.3)
    pair = scenario(hidden, replace(hidden, name="other"), duration_s=5.0)
    assert run(pair, "fair").bound.mean == pytest.approx(4 / 3, abs=1e-3)


# ---- Bytes ----


@pytest.mark.parametrize("policy", ["fair", "mlcc", "paceline"])
@pytest.mark.parametrize("overlap", [0.0, 0.6])
@pytest.mark.parametrize("bursts", [1, 4])
def test_every_iteration_sends_its_bytes_and_no_more(policy: str, overlap: float, bursts: int) -> None:
    jobs = [replace(job, iterations=None, overlap=overlap, bursts=bursts) for job in (RING, PS)]
    simulation = Simulation(scenario(*jobs, duration_s=4.0), policy, 1)
    simulation.run()
    for job in simulation.jobs.values():
        ended = [worker.iteration for worker in job.workers.values()]
        assert min(ended) >= 4
        for spec in job.flows:
            sent = simulation.network.channels[spec.flow].sent_bytes / spec.size_bytes
            assert min(ended) - 1e-9 <= sent <= max(ended) + 1 + 1e-9


@pytest.mark.parametrize("job", [RING, PS], ids=["ring", "ps"])
def test_hosts_hear_of_every_burst_and_of_where_it_ends(job: JobSpec) -> None:
    heard: dict[str, list[object]] = {}

    def listen(now_ns: int, actor: str, event: HostInput | SwitchEvent, effects: list[Effect]) -> None:
        heard.setdefault(actor, []).extend(Entry(now_ns, actor, event, tuple(effects)).events)

    simulation = Simulation(scenario(replace(job, bursts=4, overlap=0.5, iterations=3)), "paceline", 1, journal=listen)
    simulation.run()
    for spec in simulation.jobs[job.name].flows:
        told = [event for event in heard[spec.flow.source] if getattr(event, "flow", None) == spec.flow]
        ready = [(event.iteration, event.until_bytes) for event in told if isinstance(event, FlowReady)]
        quarters = [spec.size_bytes * part / 4 for part in (1, 2, 3)]
        assert ready == [(iteration, until) for iteration in range(3) for until in (*quarters, UNLIMITED)]
        assert [type(event) for event in told] == [FlowReady, FlowDone] * 12
    for host in simulation.jobs[job.name].hosts:
        assert sum(isinstance(event, IterationEnded) for event in heard[host]) == 3


# ---- Two jobs ----


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0.0, 0.4])
def test_two_jobs_of_four_bursts(overlap: float) -> None:
    """Half of each iteration is exchange: together the jobs just fit, if their bursts take turns."""
    one = replace(RING, compute_s=0.8, model_mb=100.0, bursts=4, overlap=overlap, iterations=None, jitter=0.03)
    pair = scenario(one, replace(one, name="other"), duration_s=40.0)
    slowdown = {policy: run(pair, policy).mean_slowdown for policy in ("fair", "paceline")}
    assert 1.0 <= slowdown["paceline"] < slowdown["fair"] - 0.05


# ---- What holds jobs back ----


@pytest.mark.parametrize("odd", [replace(RING, overlap=0.1), replace(PS, bursts=2)])
def test_what_holds_jobs_back_refuses_them(odd: JobSpec) -> None:
    with pytest.raises(PolicyError, match=f"cannot run job '{odd.name}'"):
        run(scenario(odd), "adadual")
    with pytest.raises(ValueError, match="overlap"):
        run_scenario(scenario(odd), "fair", 1)
