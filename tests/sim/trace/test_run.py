"""Traces through a cluster: what is kept, what skipping costs, and that numbers of flows can be used again."""

import json
from math import inf
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.cluster.schedulers import NAMES
from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.scenario import Pattern
from paceline.flowcore.policy import POLICIES
from paceline.memory import PeakByQuarter
from paceline.sim.policy_names import POLICY_NAMES, parts
from paceline.sim.trace.formats.job import Refused, TraceJob
from paceline.sim.trace.results import row
from paceline.sim.trace.run import RemainingTimes, TraceOptions, TraceRun
from paceline.sim.trace.workload import build_topology

pytestmark = pytest.mark.slow


def job(
    name: str, gpus: int, iterations: int, arrival_s: float = 0.0, pattern: Pattern = Pattern.ALLREDUCE
) -> TraceJob:
    return TraceJob(name, arrival_s, gpus, "vgg16", 100.0, 0.2, iterations, pattern)


def simulated(jobs: list[TraceJob], **options: object) -> TraceRun:
    chosen = TraceOptions(servers=6, gpus_per_server=2, **options)  # type: ignore[arg-type]
    run = TraceRun(build_topology("section-vii", 6), chosen)
    run.run(jobs)
    return run


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_jobs_come_and_go_and_flows_are_numbered_anew(policy: str) -> None:
    """Rings leave and parameter servers, some of whose flows stay within a host, take over their numbers."""
    jobs = [job(f"r{n}", 4, 4 + n, arrival_s=0.3 * n) for n in range(4)]
    jobs += [job(f"p{n}", 4, 6, arrival_s=2.0 + 0.5 * n, pattern=Pattern.PS) for n in range(4)]
    run = simulated(jobs, policy=policy, sample_s=inf)
    assert all(record.end_s < inf for record in run.records.values())
    assert run.cluster.used_gpus == run.cluster.used_servers == 0


def test_a_job_on_one_server_takes_its_time_and_one_that_does_not_fit_waits() -> None:
    run = simulated([job("one", 1, 10), job("all", 12, 3, 0.1), job("next", 12, 3, 0.2)], placement="first-fit")
    assert run.records["one"].end_s == pytest.approx(2.0)
    assert run.records["all"].start_s == pytest.approx(2.0)
    assert run.records["next"].start_s == pytest.approx(run.records["all"].end_s, abs=0.01)  # within a step or two


def test_skipping_ahead_changes_little_and_saves_much() -> None:
    jobs = [job("a", 6, 600), job("b", 6, 500, 1.0)]
    exact, skipped = simulated(jobs, sample_s=inf), simulated(jobs, sample_s=10.0)
    for name in ("a", "b"):
        assert skipped.records[name].end_s == pytest.approx(exact.records[name].end_s, rel=0.05)
    assert skipped.engine.array.steps < exact.engine.array.steps / 3


def test_the_row_has_what_was_promised() -> None:
    found = row(simulated([job("a", 4, 5), job("b", 1, 5)]), 1.0)
    assert found["jobs_finished"] == 2
    assert 0.0 < found["gpu_utilization"] <= 1.0
    for key in ("mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s", "machines_used_mean"):
        assert found[key] > 0.0
    assert {"fragmentation_mean", "wall_s", "simulated_s"} <= found.keys()


def test_gpus_that_pad_a_job_are_idle() -> None:
    """ElasticFlow rounds three GPUs up to four; of the machine's eight, five are idle."""
    options = TraceOptions(servers=2, placement="elasticflow", engine="analytic")
    run = TraceRun(build_topology("star", 2), options)
    run.run([TraceJob("a", 0.0, 3, "vgg16", 100.0, 1.0, 10)])
    assert row(run, 0.0)["fragmentation_mean"] == pytest.approx(5 / 8)


def test_an_impossible_job_is_refused_with_a_reason_and_the_others_run() -> None:
    run = simulated([job("a", 4, 5), job("huge", 13, 5), job("idle", 1, 0), job("b", 1, 5)])
    assert run.refused == [Refused("huge", "it asks for 13 GPUs of 12"), Refused("idle", "it has 0 iterations")]
    assert row(run, 1.0)["jobs_finished"] == 2
    assert row(simulated([job("huge", 13, 5)]), 1.0)["jobs_finished"] == 0


@pytest.mark.parametrize("policy", ["fair", "fair-penalty+adadual", "paceline+srsf1", "fair+cassini", "mlcc"])
def test_jobs_that_share_gpus_take_turns_computing(policy: str) -> None:
    """Three single jobs on one GPU need the time of all three, the one that needs least first; rings get through."""
    singles = [job("long", 1, 30), job("short", 1, 10), job("middle", 1, 20)]
    alone = TraceOptions(
        servers=1, gpus_per_server=1, jobs_per_gpu=3, order="srsf", backfill=True, policy=policy, jitter=0.0
    )
    run = TraceRun(build_topology("star", 1), alone)
    run.run(singles)
    ends_s = {name: record.end_s for name, record in run.records.items()}
    assert sorted(ends_s, key=ends_s.__getitem__) == ["short", "middle", "long"]
    assert ends_s["long"] == pytest.approx(60 * 0.2, rel=0.02)
    rings = [job(f"r{n}", 3 + n % 3, 5, arrival_s=0.2 * n) for n in range(8)]
    shared = simulated(rings, policy=policy, jobs_per_gpu=3, placement="lwf", order="srsf", backfill=True)
    assert all(record.end_s < inf for record in shared.records.values())
    assert shared.cluster.used_gpus == shared.cluster.used_servers == 0


@pytest.mark.parametrize("placement", NAMES)
def test_every_scheduler_goes_with_cassini(placement: str) -> None:
    jobs = [job(f"r{n}", 3, 4, arrival_s=0.2 * n) for n in range(6)]
    run = simulated(jobs, placement=placement, policy="fair+cassini")
    assert all(record.end_s < inf for record in run.records.values())


@pytest.mark.parametrize("name", ["array", "fast"])
def test_the_array_engine_has_two_names_on_the_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("jobs = 2\nmedian_s = 1.0\n")
    command = ["sim", "trace", str(workload), "--format", "generated", "--servers", "4", "--policy", "fair"]
    assert main([*command, "--engine", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "array"


def test_memory_is_told_by_quarters_of_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("jobs = 3\nmedian_s = 100.0\ngpu_mix = [[4, 1]]\n")
    command = ["sim", "trace", str(workload), "--format", "generated", "--servers", "4", "--gpus-per-server", "2"]
    assert main([*command, "--policy", "fair", "--sample-s", "0", "--until-s", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    quarters = found["peak_memory_mb_by_quarter"]
    assert len(quarters) == 4 and quarters == sorted(quarters)
    assert 0.0 < quarters[-1] <= found["peak_memory_mb"]


def test_a_quarter_of_the_memory_is_told_once() -> None:
    peak = PeakByQuarter()
    told = []
    for done in (0.1, 0.26, 0.3, 0.8, 1.0, 1.2):
        peak.told(done)
        told.append(len(peak.mb))
    assert told == [0, 1, 1, 3, 4, 4]


def test_a_profile_says_where_the_time_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("jobs = 3\nmedian_s = 2.0\ngpu_mix = [[4, 1]]\n")
    command = ["sim", "trace", str(workload), "--format", "generated", "--servers", "4", "--gpus-per-server", "2"]
    assert main([*command, "--policy", "paceline", "--profile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert {"paceline/sim/array", "paceline/sim/kernel"} <= {room["where"] for room in found["rooms"]}
    assert sum(room["share"] for room in found["rooms"]) == pytest.approx(1.0)
    assert found["functions"][0]["own_s"] >= found["functions"][-1]["own_s"] > 0.0


def test_time_passes_on_the_progress_bar_while_no_job_comes_or_goes() -> None:
    told: list[tuple[float, int]] = []
    options = TraceOptions(servers=6, gpus_per_server=2, policy="fair", sample_s=inf)
    run = TraceRun(build_topology("section-vii", 6), options)
    run.run([job("a", 4, 40)], lambda now_s, through: told.append((now_s, through)))
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1][1] == 1


def test_what_jobs_still_need_is_worked_out_for_those_that_are_asked_for() -> None:
    asked: list[str] = []
    times = RemainingTimes(lambda name: float(len(asked.append(name) or name)), {"placed": 1})
    assert (times.get("placed", 1.0), times.get("placed", 1.0), times.get("gone", 1.0)) == (6.0, 6.0, 1.0)
    assert asked == ["placed"]


def test_names_of_policies() -> None:
    assert parts("fair+cassini") == ("fair", "cassini")
    assert parts("adadual") == ("fair", "adadual")
    assert parts("paceline") == ("paceline", None)
    assert len(set(POLICY_NAMES)) == len(POLICY_NAMES)


@pytest.mark.parametrize(("placement", "engine"), [("dally", "array"), ("lwf", "analytic")])
def test_gpus_are_shared_or_preempted_but_not_both(placement: str, engine: str) -> None:
    with pytest.raises(InputError, match="3 jobs per GPU: "):
        simulated([job("a", 1, 5)], placement=placement, engine=engine, jobs_per_gpu=3)
