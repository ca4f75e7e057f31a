"""Ten seconds of writers and readers at full speed: not one torn value, no iteration counter of two iterations."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nccl_shim import build
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.layout import Kind, Source
from nccl_shim.segment.python_writer import PythonWriter
from nccl_shim.segment.reader import Reader
from nccl_shim.segment.snapshot import ProcessSnapshot

pytestmark = pytest.mark.slow

SECONDS = 10.0


def halves_agree(value: int) -> bool:
    return value >> 32 == value & 0xFFFF_FFFF


def wrong_values(snapshot: ProcessSnapshot) -> int:
    """How many values break what the writers promise: equal halves, 7 bytes an iteration."""
    counter = snapshot.iteration_counter
    torn = sum(
        (not halves_agree(flow.enqueued_bytes)) + (not halves_agree(flow.rx_bytes))
        for flow in snapshot.flows
        if flow.kind is Kind.RECV
    )
    return torn + (counter is not None and counter.enqueued_at_start != 7 * counter.iteration)


def test_the_judge_sees_torn_and_mixed_values(shm_dir: Path) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    writer.enqueue(writer.find(Kind.RECV, Source.NCCL, 1, 0, 2, 0), (1 << 32) + 2, 0)
    writer.enqueue(writer.find(Kind.PUSH, Source.PS, 1, 0, 2, 0), 8, 0)
    writer.end_iteration()
    with Reader(shm_dir) as reader:
        assert wrong_values(reader.poll()[0].snapshot) == 2


def test_c_writers(shm_dir: Path, clean_env: dict, tmp_path: Path) -> None:
    driver = tmp_path / "stress"
    source = Path(__file__).parents[1] / "csrc" / "stress.c"
    build.run_compiler([*build.FLAGS, str(source), *map(str, build.SOURCES), "-o", str(driver), "-ldl"])
    with (
        subprocess.Popen([driver, str(SECONDS)], env=clean_env, stdout=subprocess.PIPE, text=True) as child,
        Reader(shm_dir) as reader,
    ):
        assert child.stdout.readline() == "ready\n"
        reads, unknown, wrong = 0, 0, 0
        while child.poll() is None:
            [view] = reader.poll()
            reads += 1
            unknown += view.snapshot.iteration_counter is None
            wrong += wrong_values(view.snapshot)
        in_c = json.loads(child.stdout.readline())
    print(f"python reader: {reads} polls, {unknown} without an iteration counter; C reader: {in_c}")
    assert (wrong, in_c["wrong"]) == (0, 0)
    assert reads > 1000 and in_c["reads"] > 100_000
    assert unknown < reads / 2, "it is only missing while its writer is off the CPU in the middle of it"


READ = """
import sys, time
from pathlib import Path
from nccl_shim.segment.reader import Reader
from tests.nccl_shim.segment.test_stress import wrong_values
reads = wrong = 0
with Reader(Path(sys.argv[1])) as reader:
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        reads += 1
        wrong += wrong_values(reader.poll()[0].snapshot)
print(reads, wrong)
"""


def test_the_python_writer(shm_dir: Path, clean_env: dict) -> None:
    writer = PythonWriter(Identity("j", shm_dir))
    outbound = writer.find(Kind.PUSH, Source.PS, 1, 0, 2, 0)
    inbound = writer.find(Kind.RECV, Source.NCCL, 1, 0, 2, 0)
    stop = threading.Event()

    def add() -> None:
        while not stop.is_set():
            writer.enqueue(inbound, (1 << 32) + 1, 0)
            writer.transmit(inbound, 0, (1 << 32) + 1)

    thread = threading.Thread(target=add)
    thread.start()
    child = subprocess.Popen(
        [sys.executable, "-c", READ, str(shm_dir), "3"], env=clean_env, stdout=subprocess.PIPE, text=True
    )
    with child:
        until = time.monotonic() + 30
        while child.poll() is None and time.monotonic() < until:
            writer.enqueue(outbound, 7, 7)
            writer.end_iteration()
        stop.set()
        thread.join()
        reads, wrong = map(int, child.stdout.read().split())
    assert wrong == 0 and reads > 500
