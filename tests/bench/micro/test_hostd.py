"""`paceline bench hostd`: what it measures, and that nothing grows while jobs come and go."""

import json

import pytest

from bench.micro import hostd_cost
from bench.micro.hostd_cost import Setup, measure
from bench.micro.hostd_soak import soak
from paceline import cli

pytestmark = [pytest.mark.root, pytest.mark.slow]


def test_the_command_measures_hostd(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--flows", "2", "--slot-ms", "60", "--slots", "30", "--json"]
    assert cli.main(["bench", "hostd", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["flows"], found["mode"], found["backend"]) == (2, "enforce", "htb")
    assert found["slots"] >= 30
    assert 0 < found["hostd_cpu_percent"] < 30, "loose: other tests may have the machine"
    parts = found["hostd_cpu_percent_by_part"]
    assert parts.keys() == {"hostd", "guardian", "registrar", "worker"}
    assert parts["hostd"] > 0 and abs(sum(parts.values()) - found["hostd_cpu_percent"]) < 0.1
    assert found["decisions"] >= 30, "at least one a slot while flows have bytes to send"
    assert 0 <= found["decision_ms"]["p50"] <= found["decision_ms"]["p90"] <= found["decision_ms"]["p99"]
    assert found["missed_slots"] <= found["slots"] // 4 and found["fail_opens"] == 0, "loose, too"
    assert 10 < found["resident_mb"] < 300
    assert found["machine"]["cpus"] > 0


@pytest.mark.torch
def test_hostd_among_real_jobs_of_several_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostd_cost, "WARM_UP_S", 2.0)
    found = measure(Setup(flows=2, slots=25, jobs="real"))  # FSDP, tensor parallelism
    assert found["jobs"] == "real" and found["fail_opens"] == 0
    assert isinstance(cpu := found["hostd_cpu_percent"], float) and 0 < cpu < 30


def test_nothing_grows_while_jobs_come_and_go() -> None:
    found = soak(12.0)
    assert found["rounds"] >= 4 and found["jobs"] == 3 * found["rounds"]
    assert found["descriptors_last"] <= found["descriptors_first"] + 1, "one may be a status being answered"
    assert found["resident_mb_second_half"] - found["resident_mb_first_half"] < 1.0
    assert found["fail_opens"] == 0


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "99999"])
def test_a_soak_has_an_end(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "hostd", "--soak", minutes]) == 2
    assert "--soak" in capsys.readouterr().err
