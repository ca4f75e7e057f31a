"""`paceline whatif` on files, and on hosts that watch jobs."""

import json
from pathlib import Path

import pytest

from hostd.introspect.control import ask
from paceline.cli import main
from tests.commands.output import one_line, run_json
from tests.hostd.cluster import Cluster, cluster, fork_server
from tests.whatif.watched import job, pair, record

__all__ = ["cluster", "fork_server"]  # fixtures

SIZE_BYTES = 1.25e6 * 1514 / 1448  # of a job of the cluster, in an iteration, with headers


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two jobs that collide, on two hosts."""
    jobs = [pair(name, 10e6, 200, 80) for name in ("a", "b")]
    made = []
    for number, host in enumerate(("h0", "h1")):
        path = tmp_path / f"{host}.json"
        path.write_text(json.dumps(record(host, *(one[number] for one in jobs))))
        made.append(str(path))
    return made


def test_records_of_hosts_give_what_is_lost_and_what_would_be_gained(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", *files]) == 0
    text = capsys.readouterr().out
    assert "h0->sw" in text and "mean slowdown now 1.250, expected with Paceline 1.0" in text
    assert "watched on" not in text


def test_one_host_of_two_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "h0.json").write_text(json.dumps(record("h0", pair("a", 10e6, 200, 80)[0])))
    _, found = run_json(["whatif", str(tmp_path / "h0.json")], capsys)
    assert found["jobs"][0]["slowdown_now"] == pytest.approx(1.25) and found["jobs"][0]["slowdown_paceline"] == 1.0
    assert found["time_lost_percent"] == found["gain_percent"] == pytest.approx(20.0)
    assert main(["whatif", str(tmp_path / "h0.json")]) == 0
    assert "a: watched on 1 of its 2 hosts" in capsys.readouterr().out


def test_wrong_inputs_are_one_line(tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "none.json").write_text(json.dumps(record("h0", job("a", iteration_ms=1, computing_ms=1))))
    for arguments, said in (
        ([str(tmp_path / "no.json")], "no JSON"),
        ([str(tmp_path / "missing.json")], "No such file"),
        ([str(tmp_path / "none.json")], "nothing to simulate: a: it sends to no other host"),
        (["--runtime-directory", str(tmp_path)], "no hostd answers"),
        ([*files, "--since", "1d"], "not both"),
        ([*files, "--save", "x"], "one host"),
    ):
        assert main(["whatif", *arguments]) == 2
        assert said in one_line(capsys)


@pytest.mark.root
def test_hosts_in_observe_mode_know_their_jobs(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = cluster.jobs("a", "b")
    daemons = [cluster.hostd(host, mode="observe") for host in ("h0", "h1")]

    def known() -> bool:
        answers = [ask(daemon.place / "control.sock", "profiles") for daemon in daemons]
        jobs = [one for answer in answers for one in answer["jobs"]]
        sizes = [flow["size_bytes"] for one in jobs for flow in one["flows"]]
        learned = sizes == pytest.approx([SIZE_BYTES] * 4, rel=0.02)  # the first sample may be of a part
        return learned and all((one["times"] or {}).get("computing_ns") for one in jobs)

    cluster.run(group, known)
    status = daemons[0].status()
    assert status["mode"] == "observe"
    for one in status["jobs"]:
        assert one["slowdown"] is None and one["estimated_slowdown"] >= 1.0
        assert one["estimated_alone_ms"] == pytest.approx(152, rel=0.15)
    saved = tmp_path / "h1.json"
    assert main(["whatif", "--runtime-directory", str(daemons[1].place), "--save", str(saved)]) == 0
    capsys.readouterr()
    where = [text for daemon in daemons for text in ("--runtime-directory", str(daemon.place))]
    _, found = run_json(["whatif", *where], capsys)
    assert {"jobs", "links", "gain_percent", "time_lost_percent", "seed", "commit", "machine"} <= found.keys()
    for one in found["jobs"]:
        assert one["computing_s"] == pytest.approx(0.1, rel=0.15) and one["model_mb"] >= 1.3
        assert one["hosts"] == ["h0", "h1"] and one["bursts"] == 1 and one["measured"]
    assert found["links"][0]["jobs"] == ["a", "b"]
    assert json.loads(saved.read_text())["host"] == "h1"
