"""The gate in the NCCL plugin: which launches wait for their turn, how long, and that hostd sees that one waits."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nccl_shim.page.layout import ANY_PEER, Entry, State
from nccl_shim.page.writer import PageWriter
from nccl_shim.segment.reader import Reader
from tests.nccl_shim.csrc.test_plugin import compile_driver

pytestmark = pytest.mark.slow

SLOT_NS = 60_000_000
ASK_MS = 2 * SLOT_NS / 1e6
ASK = Entry(ANY_PEER, State.ASK)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, library_path: Path) -> list[str]:
    return [str(compile_driver(tmp_path_factory.mktemp("gate"), [])), str(library_path), "gate"]


@contextmanager
def page(directory: Path, *entries: Entry) -> Iterator[PageWriter]:
    done = threading.Event()
    with PageWriter(directory, 1, 1, SLOT_NS) as writer:
        writer.write(entries)

        def beat() -> None:
            while not done.wait(SLOT_NS / 3e9):
                writer.beat(time.monotonic_ns())

        beating = threading.Thread(target=beat)
        beating.start()
        yield writer
        done.set()
        beating.join()


def waits(command: list[str], env: dict[str, str], late_ms: int = 0) -> list[list[float]]:
    """How long the three launches of each of six iterations took, in ms."""
    done = subprocess.run([*command, str(late_ms)], env=env, capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr == ""
    found: list[list[float]] = json.loads(done.stdout)
    return found


def waited(found: list[list[float]]) -> list[list[bool]]:
    return [[one > ASK_MS / 2 for one in iteration] for iteration in found]


@pytest.mark.parametrize("version", ["5", "6"])
def test_the_first_large_launch_of_an_iteration_waits(
    driver: list[str], clean_env: dict[str, str], tmp_path: Path, version: str
) -> None:
    with page(tmp_path, ASK) as asks:
        env = clean_env | {"PACELINE_PAGE": str(asks.path), "REPLAY_VERSION": version}
        found = waits(driver, env)
    # Of the first iteration nothing is known; hostd never answers, so that every other burst goes at once.
    assert waited(found) == [[False] * 3, *[[False, number % 2 == 0, False] for number in range(5)]]
    assert all(one < ASK_MS + 500 for iteration in found for one in iteration)


def test_without_a_page_nothing_waits(driver: list[str], clean_env: dict[str, str]) -> None:
    assert not any(map(any, waited(waits(driver, clean_env | {"PACELINE_PAGE": "/nonexistent"}))))


@pytest.mark.parametrize(("what", "holds"), [("graph", False), ("Recv", False), ("Send", True)])
def test_what_is_captured_or_comes_in_does_not_wait(
    driver: list[str], clean_env: dict[str, str], tmp_path: Path, what: str, holds: bool
) -> None:
    with page(tmp_path, ASK) as asks:
        found = waits(driver, clean_env | {"PACELINE_PAGE": str(asks.path), "REPLAY_AS": what})
    assert any(map(any, waited(found))) is holds


def test_a_program_that_marks_nothing_waits_after_a_rest(
    driver: list[str], clean_env: dict[str, str], tmp_path: Path
) -> None:
    with page(tmp_path, ASK) as asks:
        env = clean_env | {"PACELINE_PAGE": str(asks.path), "REPLAY_UNMARKED": "1"}
        assert not any(map(any, waited(waits(driver, env)))), "its bytes never rest"
        rests = waited(waits(driver, env | {"REPLAY_REST_MS": "10"}))
    assert rests == [[False, number % 2 == 0, False] for number in range(6)]


def test_a_job_that_runs_ahead_of_its_gpu_does_not_wait(
    driver: list[str], clean_env: dict[str, str], tmp_path: Path
) -> None:
    """The bytes of its bursts come 150 ms after their launch."""
    with page(tmp_path, ASK) as asks:
        found = waits(driver, clean_env | {"PACELINE_PAGE": str(asks.path)}, late_ms=150)
    assert not any(map(any, waited(found)[2:])), "the first burst is not known to"


def test_hostd_sees_that_a_launch_waits_and_its_turn_lets_it_go(
    driver: list[str], clean_env: dict[str, str], shm_dir: Path, tmp_path: Path
) -> None:
    with page(tmp_path) as turns, Reader(shm_dir) as reader:
        turns.write([Entry(ANY_PEER, State.HELD, time.monotonic_ns() + 1_500_000_000)])
        env = clean_env | {"PACELINE_PAGE": str(turns.path)}
        process = subprocess.Popen(driver, env=env, stdout=subprocess.PIPE, text=True)
        end_s, held_ns = time.monotonic() + 10.0, 0
        while not held_ns and time.monotonic() < end_s:
            held_ns = max((view.snapshot.held_ns for view in reader.poll()), default=0)
        time.sleep(0.1)
        turns.write([])
        output = process.communicate(timeout=10)[0]
        assert 0 < held_ns < time.monotonic_ns()
        assert all(view.snapshot.held_ns == 0 for view in reader.poll())
    [longest] = [one for iteration in json.loads(output) for one in iteration if one > 5.0]
    assert 90.0 < longest < 600.0
