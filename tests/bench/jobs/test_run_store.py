"""What a run store gives back is what was saved, also after a crash in the middle of a line."""

from pathlib import Path

from bench.experiments.paper_jobs import cluster, host_names, job
from bench.jobs.control import DaemonCpu
from bench.jobs.run import Conditions, JobsRun
from bench.jobs.run_store import RunStore, run_key
from paceline.sim.jobs import TrainingJob

SCENARIO = cluster("one", 25.0, [job("a", "GPT2", host_names()[:3])], duration_s=5.0)
CONDITIONS = Conditions("synthetic", 1)


def saved_run() -> JobsRun:
    one = TrainingJob(SCENARIO.jobs[0], 1)
    one.iteration_ends_ns = [10, 20, 30]
    return JobsRun("cubic", (one,), 40, {"h0->sw": 7}, (5,), DaemonCpu(1.0, 2.0), 4, 3.0)


def asked(path: Path, key: str) -> RunStore:
    store = RunStore(path)
    store.find(key, SCENARIO, 1)
    return store


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    key = run_key(SCENARIO, CONDITIONS, "cubic", 0)
    RunStore(path, "abc").save(key, "one, cubic", saved_run(), {"mbps": [1.0]})
    found = RunStore(path, "def").find(key, SCENARIO, 1)
    assert found is not None
    run, seen = found
    assert run.jobs[0].iteration_ends_ns == [10, 20, 30]
    assert (run.lasted_ns, run.link_bytes, run.cross_traffic_bytes) == (40, {"h0->sw": 7}, (5,))
    assert (run.cpu, run.fail_opens, run.stalled_percent) == (DaemonCpu(1.0, 2.0), 4, 3.0)
    assert seen == {"mbps": [1.0]}


def test_a_key_covers_all_that_decides_a_run() -> None:
    keys = {
        run_key(SCENARIO, CONDITIONS, "cubic", 0),
        run_key(SCENARIO, CONDITIONS, "cubic", 1),
        run_key(SCENARIO, CONDITIONS, "reno", 0),
        run_key(SCENARIO, Conditions("ddp", 1), "cubic", 0),
        run_key(SCENARIO, Conditions("a=fsdp", 1), "cubic", 0),
        run_key(SCENARIO, Conditions("a=overlap", 1), "cubic", 0),
        run_key(cluster("one", 10.0, SCENARIO.jobs, duration_s=5.0), CONDITIONS, "cubic", 0),
    }
    assert len(keys) == 7


def test_lines_of_another_shape_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{}\n[1]\n"text"\n{"failed": 1}\n{"failed": 1, "key": "first"}\nnull\n')
    store = RunStore(path)
    store.save("first", "one, cubic", saved_run(), None)
    assert RunStore(path).find("first", SCENARIO, 1) is not None


def test_a_line_cut_short_costs_that_run_only(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore(path, "abc")
    store.save("first", "one, cubic", saved_run(), None)
    store.save_failure("third", "one, reno", "it stood still")
    store.save("second", "one, cubic", saved_run(), None)
    path.write_bytes(path.read_bytes()[:-40])
    again = RunStore(path, "def")
    assert again.find("first", SCENARIO, 1) is not None
    assert again.find("second", SCENARIO, 1) is None
    assert again.find("third", SCENARIO, 1) is None
    assert again.failures == ["one, reno: it stood still"]
    again.save("second", "one, cubic", saved_run(), None)
    assert RunStore(path).find("second", SCENARIO, 1) is not None
    assert again.commits() == ["abc", "def"]


def test_the_time_of_earlier_runs_counts_those_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore(path)
    store.save_failure("first", "one, cubic", "it stood still", 2.0)
    store.save("first", "one, cubic", saved_run(), None, 3.5)
    assert store.earlier_s == 0.0  # that was now
    assert asked(path, "first").earlier_s == 5.5
    path.write_text(path.read_text().replace(', "took_s": 2.0', ""))  # as lines once were
    assert asked(path, "first").earlier_s == 3.5


def test_runs_that_were_not_asked_for_are_not_reported(tmp_path: Path) -> None:
    """Runs under other controls, or of a scenario that has changed since."""
    path = tmp_path / "runs.jsonl"
    earlier = RunStore(path, "abc")
    earlier.save_failure("other", "one, mlcc", "it stood still", 2.0)
    earlier.save("other", "one, mlcc", saved_run(), None, 3.0, disturbance="the machine stalled")
    earlier.save("first", "one, cubic", saved_run(), None, 4.0)
    store = RunStore(path, "def")
    assert store.find("first", SCENARIO, 1) is not None
    assert (store.failures, store.disturbances, store.commits(), store.earlier_s) == ([], [], ["abc"], 4.0)
    assert store.find("other", SCENARIO, 1) is not None
    assert store.failures == ["one, mlcc: it stood still"]
    assert store.disturbances == ["one, mlcc: the machine stalled"]
    assert store.earlier_s == 9.0


def test_a_failure_withdraws_a_saved_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore(path)
    store.save("first", "one, cubic", saved_run(), None)
    store.save_failure("first", "one, cubic", "the machine stalled")
    for one in (store, RunStore(path)):
        assert one.find("first", SCENARIO, 1) is None
        assert one.failures == ["one, cubic: the machine stalled"]
