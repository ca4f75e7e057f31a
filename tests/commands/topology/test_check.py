"""`paceline topology check`: a summary, what another file has otherwise, or one line and status 2."""

import json
from pathlib import Path

import pytest

from paceline.cli import main

GOOD = """version = 1
[switches]
core = {}
rack1 = {parents = ["core"], gbps = 100}
rack2 = {parents = ["core"], gbps = 40}
[hosts]
gpu-a = {switch = "rack1", gbps = 25, addresses = ["10.0.1.10", "10.244.3.0/24"]}
gpu-b = {switch = "rack1", gbps = 25, addresses = ["gpu-b.example.org"]}
gpu-c = {switch = "rack2", gbps = 100}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "topology.toml"
    path.write_text(GOOD)
    return path


def test_a_good_file_is_summed_up(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "check", str(good)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{good}: good: 3 hosts of 25 to 100 Gbit/s in 2 racks of 1 to 2, 3 switches, 1 addresses, 1 networks, 1 names",
        "no address: gpu-c: what these hosts' jobs send is not known as theirs",
        "most below its uplinks: rack2, 100 Gbit/s over 40 (2.5 to 1)",
    ]
    assert main(["topology", "check", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rack_sizes"] == [1, 2]


def test_what_a_running_cluster_would_learn(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.toml"
    text = GOOD.replace("gbps = 40", "gbps = 80").replace("gpu-b = ", "gpu-d = ")
    new.write_text(text.replace("[hosts]", 'rack3 = {parents = ["core"], gbps = 100}\n[hosts]'))
    assert main(["topology", "check", str(new), "--against", str(good)]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "added: hosts: gpu-d; switches: rack3",
        "removed: gpu-b",
        "changed: the cable from rack2 to core has 80 Gbit/s now, and 40 Gbit/s before",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            GOOD.replace('"rack2", gbps', '"rack9", gbps'),
            "hosts.gpu-c: found switch 'rack9', expected one of [switches]",
        ),
        (
            GOOD.replace("core = {}", 'core = {listen = "10.0.0.1:99999"}'),
            "switches.core.listen: found '10.0.0.1:99999'",
        ),
        ("version = 2", "version: found 2, expected 1"),
        (None, "No such file or directory"),
    ],
)
def test_a_wrong_one_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    path = tmp_path / "wrong.toml"
    if content is not None:
        path.write_text(content)
    assert main(["topology", "check", str(path)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out
