"""`paceline sim run`: the contract of its JSON, and wrong scenarios in one line."""

import json
import math
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.flowcore.model.scenario import MAX_SCENARIO_BYTES
from tests.commands.output import run_json

TWO_JOBS = """
version = 1
name = "two"
duration_s = 5.0
topology = { kind = "star", hosts = 2, link_gbps = 1.0 }

[[job]]
name = "a"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.2
jitter = 0.03

[[job]]
name = "[b]"
pattern = "allreduce"
workers = ["h0", "h1"]
model_mb = 25.0
compute_s = 0.2
iterations = 6
jitter = 0.03

[[cross_traffic]]
from = "h0"
to = "h1"
every_s = 2.0
lasts_s = [0.2, 0.4]
gbps = 0.3
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "two.toml"
    path.write_text(TWO_JOBS)
    return str(path)


# fmt: off
KEYS = [
    "scenario", "policy", "seed", "jobs", "mean_slowdown", "capacity_bound", "ratio_to_bound", "mean_jct_s",
    "p99_jct_s", "max_link_overload", "simulated_s", "decision_us", "wall_s", "version", "commit", "machine",
]  # fmt: skip
JOB_KEYS = [
    "name", "iterations", "alone_iteration_s", "mean_iteration_s", "p99_iteration_s", "slowdown", "jct_s",
    "finished",
]  # fmt: skip


@pytest.mark.parametrize("policy", ["fair", "fifo", "srpt", "mlcc", "paceline"])
def test_json_has_the_keys_of_the_contract(policy: str, scenario: str, capsys) -> None:
    _, document = run_json(["sim", "run", scenario, "--policy", policy, "--seed", "3"], capsys)
    assert list(document) == KEYS
    assert (document["policy"], document["seed"]) == (policy, 3)
    assert [list(job) for job in document["jobs"]] == [JOB_KEYS, JOB_KEYS]
    assert list(document["decision_us"]) == ["p50", "p90", "p99"]
    assert math.isclose(
        document["ratio_to_bound"], document["mean_slowdown"] / document["capacity_bound"], rel_tol=1e-12
    )


def test_a_job_still_running_counts_with_its_time_so_far(scenario: str, capsys) -> None:
    _, document = run_json(["sim", "run", scenario, "--policy", "paceline"], capsys)
    running, through = document["jobs"]
    assert (running["finished"], running["jct_s"]) == (False, None)
    assert through["finished"]
    assert math.isclose(document["mean_jct_s"], (5.0 + through["jct_s"]) / 2)
    assert document["p99_jct_s"] == 5.0


@pytest.mark.parametrize("options", [[], ["--local"], ["--latency-ms", "10"]], ids=" ".join)
def test_same_seed_same_bytes(options: list[str], scenario: str, capsys) -> None:
    texts = []
    for _ in range(2):
        arguments = ["sim", "run", scenario, "--policy", "paceline", "--seed", "5", *options]
        text, document = run_json(arguments, capsys)
        for timing in ("wall_s", "decision_us"):
            measured = json.dumps({timing: document[timing]}, indent=2)[2:-2]
            assert measured in text
            text = text.replace(measured, timing)
        texts.append(text)
    assert texts[0] == texts[1]


def test_another_seed_is_another_run(scenario: str, capsys) -> None:
    means = {
        run_json(["sim", "run", scenario, "--policy", "fair", "--seed", seed], capsys)[1]["mean_slowdown"]
        for seed in "123"
    }
    assert len(means) == 3


def test_without_json_it_is_a_table(scenario: str, capsys) -> None:
    assert main(["sim", "run", scenario, "--policy", "paceline"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "[b]" in out  # a name, not markup
    assert "mean slowdown" in out
    assert "capacity bound" in out


@pytest.mark.parametrize(("name", "start"), [("links.png", b"\x89PNG"), ("links.svg", b"<?xml")])
def test_figure(name: str, start: bytes, scenario: str, tmp_path: Path, capsys) -> None:
    figure = tmp_path / name
    run_json(["sim", "run", scenario, "--policy", "paceline", "--figure", str(figure)], capsys)
    assert figure.read_bytes().startswith(start)


WRONG = {
    "unknown key": TWO_JOBS.replace("jitter", "jiter"),
    "missing host": TWO_JOBS.replace('"h1"', '"h7"'),
    "negative size": TWO_JOBS.replace("25.0", "-25.0"),
    "NaN": TWO_JOBS.replace("25.0", "nan"),
    "infinite": TWO_JOBS.replace("5.0\n", "inf\n"),
    "empty": "",
    "no TOML": "version = \x00\x1b[2J",
    "line breaks in a key": TWO_JOBS + '\n["a\\nb"]\n',
    "10 MB of garbage": "\udcff" * 10_000_000,
    "a little too long": TWO_JOBS + "#" * MAX_SCENARIO_BYTES,
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_wrong_scenarios_get_one_line(text: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, errors="surrogateescape")
    check_refused(["sim", "run", str(path), "--policy", "fair"], str(path), capsys)


def test_what_is_no_file_gets_one_line(tmp_path: Path, capsys) -> None:
    for path in (tmp_path, tmp_path / "missing.toml", tmp_path / ("long" * 100), Path("/dev/zero")):
        check_refused(["sim", "run", str(path), "--policy", "fair"], str(path), capsys)


def test_outputs_are_checked_before_the_run(scenario: str, tmp_path: Path, capsys) -> None:
    nowhere = str(tmp_path / "missing" / "x.png")
    check_refused(["sim", "run", scenario, "--policy", "fair", "--figure", nowhere], nowhere, capsys)
    check_refused(["sim", "run", scenario, "--policy", "fair", "--journal", nowhere], nowhere, capsys)


@pytest.mark.parametrize("policy", ["cassini", "adadual", "srsf1", "srsf2", "paceline+cassini"])
def test_policies_that_hold_jobs_back(scenario: str, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, fair = run_json(["sim", "run", scenario, "--policy", "fair"], capsys)
    _, held = run_json(["sim", "run", scenario, "--policy", policy], capsys)
    assert held.keys() == fair.keys() and held["policy"] == policy
    assert held["capacity_bound"] == fair["capacity_bound"]
    assert [job["name"] for job in held["jobs"]] == [job["name"] for job in fair["jobs"]]
    assert 1.0 <= held["mean_slowdown"] < 2 * fair["mean_slowdown"]
    assert main(["sim", "run", scenario, "--policy", policy, "--local"]) == 2
    assert "holds jobs back" in capsys.readouterr().err


def test_what_holds_jobs_back_as_the_daemons_run_it(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, fair = run_json(["sim", "run", scenario, "--policy", "fair"], capsys)
    _, held = run_json(["sim", "run", scenario, "--policy", "cassini", "--agents"], capsys)
    assert held["policy"] == "cassini" and held["decision_us"]["p50"] > 0.0
    assert held["mean_slowdown"] < fair["mean_slowdown"]
    check_refused(["sim", "run", scenario, "--policy", "fair", "--agents"], "--agents", capsys)


def test_overlap_and_bursts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, figure = tmp_path / "odd.toml", tmp_path / "links.png"
    path.write_text(TWO_JOBS.replace("jitter = 0.03", "overlap = 0.5\nbursts = 4"))
    _, found = run_json(["sim", "run", str(path), "--policy", "paceline", "--figure", str(figure)], capsys)
    assert figure.exists()
    assert [job["alone_iteration_s"] for job in found["jobs"]] == pytest.approx([0.3, 0.3], abs=1e-4)
    assert found["capacity_bound"] == pytest.approx(4 / 3, abs=1e-3)
    assert found["ratio_to_bound"] == pytest.approx(found["mean_slowdown"] / found["capacity_bound"])
    check_refused(["sim", "run", str(path), "--policy", "cassini"], "cassini holds jobs back", capsys)


def check_refused(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"paceline: {named}: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
