"""Histories hold: those that once failed, some of each topology, and long ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.sim.faults.campaign import run_histories
from paceline.sim.faults.draw import TOPOLOGIES, draw
from paceline.sim.faults.history import decode, encode
from paceline.sim.faults.run import check
from paceline.sim.faults.world import SLOT_NS, World

FAILED = [json.loads(line) for line in (Path(__file__).parent / "failed_seeds.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("failed", FAILED, ids=lambda failed: failed["why"])
def test_what_once_failed_holds(failed: dict[str, object]) -> None:
    assert check(decode(json.dumps(failed["history"]))).what == ""


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_faults_pass_and_all_jobs_go_on(topology: str) -> None:
    assert [failure for failure in run_histories(1, 6, [topology], 16, 1) if failure is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_longer_than_switches_remember(topology: str) -> None:
    assert check(draw(1, topology, 1100)).what == ""


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_history_is_data(topology: str) -> None:
    history = draw(3, topology, 16)
    assert decode(encode(history)) == history
    assert history == draw(3, topology, 16) != draw(4, topology, 16)


def happened(seed: int) -> int:
    """A number for all that happens in a history."""
    lines: list[str] = []
    world = World(draw(seed, "clos", 16), trace=lambda now_ns, name, what: lines.append(f"{now_ns} {name} {what}"))
    world.run_until(10 * SLOT_NS)
    assert len(lines) > 100
    return sum(hash_of(line) * number for number, line in enumerate(lines))


def hash_of(text: str) -> int:
    """The same in every process."""
    return int.from_bytes(text.encode(), "big") % (2**61 - 1)


@pytest.mark.slow
def test_a_history_runs_the_same_in_every_process() -> None:
    code = f"from {__name__} import happened; print(happened(2))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1]
