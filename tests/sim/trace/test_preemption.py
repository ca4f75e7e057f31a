"""Jobs that are stopped keep what they finished, on every engine; impossible ones are refused and the rest goes on."""

import re
from math import inf
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.cluster.job import Job
from paceline.cluster.offer import Offer
from paceline.cluster.placement import first_fit
from paceline.cluster.schedulers.base import Scheduler
from paceline.cluster.state import Workers
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.policy import POLICIES
from paceline.sim.policy_names import COMMUNICATIONS
from paceline.sim.trace.formats.job import Refused, TraceJob
from paceline.sim.trace.run import ENGINES, TraceOptions, TraceRun
from paceline.sim.trace.workload import build_topology

RESTORE_S = 3.0


class Newest(Scheduler):
    """The job that came last takes the GPUs of jobs that came before."""

    tenure_s = 0.0

    def rank(self, job: Job, now_s: float) -> float:
        return -job.arrival_s

    def place(self, job: Job, offer: Offer) -> Workers | None:
        return offer.least_disturbing(lambda free: first_fit.fill(list(free), job.gpus, free))


def job(name: str, arrival_s: float, gpus: int, iterations: int, model: str = "resnet50") -> TraceJob:
    pattern = Pattern.PS if name.startswith("ps") else Pattern.ALLREDUCE
    return TraceJob(name, arrival_s, gpus, model, 100.0, 0.2, iterations, pattern)


def simulated(jobs: list[TraceJob], *, newest: bool = True, **options: object) -> TraceRun:
    chosen = TraceOptions(
        servers=3, gpus_per_server=2, restore_s=RESTORE_S, round_s=5.0, sample_s=inf, jitter=0.0,
        placement="first-fit", **options,
    )  # type: ignore[arg-type]  # fmt: skip
    run = TraceRun(build_topology("section-vii", 3), chosen)
    if newest:
        run.scheduler = Newest()
    run.run(jobs)
    return run


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stopped_job_keeps_its_iterations_and_pays_for_the_restart(engine: str) -> None:
    alone = simulated([job("old", 0.0, 6, 60)], engine=engine).records["old"]
    run = simulated([job("old", 0.0, 6, 60), job("new", 5.0, 6, 10)], engine=engine)
    old, new = run.records["old"], run.records["new"]
    assert (old.stops, new.stops) == (1, 0)
    assert new.start_s == pytest.approx(5.0)
    iteration_s = alone.run_s / 60
    assert old.end_s == pytest.approx(alone.end_s + new.run_s + RESTORE_S, abs=2 * iteration_s)
    waited_s = new.end_s - new.start_s
    assert old.end_s - old.arrival_s == pytest.approx(old.run_s + waited_s, abs=0.01)  # and nothing else, but a step
    assert old.iterations_done == 60
    assert run.cluster.used_gpus == 0


@pytest.mark.parametrize("policy", [*sorted(POLICIES), *(f"fair+{name}" for name in COMMUNICATIONS), "mlcc+srsf1"])
def test_flows_of_a_stopped_job_leave_no_trace_in_the_network(policy: str) -> None:
    """Stopped in the middle of bursts; others go on, take over the numbers of its flows, and all end."""
    jobs = [job("a", 0.0, 4, 12), job("b", 0.25, 6, 6), job("ps", 2.05, 4, 6), job("c", 2.5, 6, 4)]
    run = simulated(jobs, policy=policy)
    assert sum(record.stops for record in run.records.values()) >= 2
    assert all(record.end_s < inf for record in run.records.values())
    assert not run.engine.array.jobs
    assert not run.engine.array.network.live.any()
    gating = run.engine.array.gating
    assert gating is None or not (gating._held or gating._computed or gating._running)


def test_a_job_stopped_while_it_is_restored_has_lost_nothing_but_time() -> None:
    jobs = [job("old", 0.0, 6, 60), job("new", 4.0, 6, 5), job("newer", 6.5, 6, 5)]
    run = simulated(jobs, engine="analytic")
    old = run.records["old"]
    assert old.stops == 2
    assert old.restore_s < 2 * RESTORE_S
    assert old.iterations_done == 60
    assert old.exchange_s == pytest.approx(
        simulated([job("old", 0.0, 6, 60)], engine="analytic").records["old"].exchange_s, rel=0.05
    )


def test_impossible_jobs_are_refused_and_the_rest_goes_on() -> None:
    jobs = [job("huge", 0.0, 7, 5), job("none", 0.0, 2, 0), job("fine", 1.0, 6, 5), job("odd", 1.0, 2, 5, "unheard-of")]
    run = simulated(jobs, newest=False, engine="analytic-table")
    assert run.refused == [
        Refused("huge", "it asks for 7 GPUs of 6"),
        Refused("none", "it has 0 iterations"),
        Refused("odd", "Table I of Dally has no model 'unheard-of'"),
    ]
    assert [name for name, record in run.records.items() if record.end_s < inf] == ["fine"]


def test_nothing_but_impossible_jobs_is_a_short_run() -> None:
    assert simulated([job("huge", 0.0, 7, 5)], newest=False).now_s == 0.0


def test_the_command_names_the_jobs_that_were_refused_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(
        "job_id,num_gpu,submit_time,iterations,model_name,duration\n"
        "1,4,0,5,resnet50,5\n2,99,0,5,resnet50,5\n3,4,0,0,resnet50,5\n4,4,1,5,unheard-of,5\n5,2,2,5,vgg16,5\n"
    )
    command = ["sim", "trace", str(trace), "--format", "tiresias", "--servers", "4", "--gpus-per-server", "2"]
    command += ["--placement", "dally", "--policy", "fair"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "refused 2: it asks for 99 GPUs of 8" in out
    assert "refused 3: it has 0 iterations" in out
    assert "refused 4: no model 'unheard-of' is known" in out
    assert re.search(r"jobs_finished +│ +2 ", out)


@pytest.mark.parametrize(("placement", "most"), [("tiresias", 4), ("dally", 4), ("dally-move", 1000)])
def test_no_round_is_held_while_no_job_waits_or_moves(placement: str, most: int) -> None:
    rounds = 0

    class Counted(TraceRun):
        def _round(self) -> None:
            nonlocal rounds
            rounds += 1
            super()._round()

    run = Counted(build_topology("dally", 8), TraceOptions(8, placement=placement, engine="analytic"))
    run.run([TraceJob("long", 0.0, 2, "resnet50", 98.0, 1.0, 90_000)])
    assert rounds <= most
    assert (rounds > 100) == (most > 100)
