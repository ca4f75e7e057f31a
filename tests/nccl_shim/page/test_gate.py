"""A launch waits for its turn on a real page, within its bounds, and whatever happens it goes."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from nccl_shim.page.decision import Answer
from nccl_shim.page.gate import LaunchGate
from nccl_shim.page.layout import ANY_PEER, Entry, State
from nccl_shim.page.reader import PageReader
from nccl_shim.page.writer import PageWriter

SLOT_NS = 20_000_000
LONG_SLOT_NS = 200_000_000
SOON_NS = 500_000_000  # on a busy machine


def held(after_ns: int = 1_500_000_000) -> list[Entry]:
    return [Entry(ANY_PEER, State.HELD, time.monotonic_ns() + after_ns)]


def test_without_a_page_or_an_entry_it_goes_at_once(tmp_path: Path) -> None:
    assert LaunchGate(PageReader(tmp_path / "none")).wait() < SOON_NS
    with PageWriter(tmp_path, 1, 1, LONG_SLOT_NS) as page:
        assert LaunchGate(PageReader(page.path)).wait() < SOON_NS


def test_it_goes_when_its_turn_comes(tmp_path: Path) -> None:
    with PageWriter(tmp_path, 1, 1, LONG_SLOT_NS) as page:
        gate = LaunchGate(PageReader(page.path))
        page.write(held())
        turn = threading.Timer(0.05, page.write, ([],))
        turn.start()
        assert 40_000_000 < gate.wait() < SOON_NS
        turn.join()
        page.write(held(30_000_000))
        page.beat(time.monotonic_ns())
        assert gate.wait() < SOON_NS, "at the moment that was named"


def test_of_a_hostd_that_does_not_answer_every_other_launch_hears(tmp_path: Path) -> None:
    with PageWriter(tmp_path, 1, 1, SLOT_NS) as page:
        gate = LaunchGate(PageReader(page.path))
        page.write([Entry(ANY_PEER, State.ASK)])
        assert 2 * SLOT_NS <= gate.wait() < SOON_NS
        page.beat(time.monotonic_ns())
        assert gate.wait() == 0
        assert 2 * SLOT_NS <= gate.wait() < SOON_NS


def test_a_killed_hostd_holds_nothing(tmp_path: Path) -> None:
    with PageWriter(tmp_path, 1, 1, SLOT_NS) as page:
        page.write(held())
        assert LaunchGate(PageReader(page.path)).wait() < SOON_NS


class Raising(PageReader):
    def look(self, peer: bytes, now_ns: int | None = None) -> Answer:
        raise RuntimeError("whatever it is")


def test_nothing_is_raised() -> None:
    assert LaunchGate(Raising()).wait() == 0


PUSHES = """
import time
from nccl_shim import ps
worker, waits = ps.connect(role="worker", rank=0, world_size=2), []
for push in range(4):
    began = time.monotonic()
    worker.push(peer=1, size_bytes=1000).done()
    waits.append(time.monotonic() - began > 0.3)
    if push == 2: worker.iteration_done()
server = ps.connect(role="server", rank=1, world_size=2)
began = time.monotonic()
server.push(peer=0, size_bytes=1000).done()
print(waits, time.monotonic() - began > 0.3)
"""


def test_the_first_push_of_an_iteration_waits_and_a_server_does_not(clean_env: dict[str, str], tmp_path: Path) -> None:
    with PageWriter(tmp_path, 1, 1, LONG_SLOT_NS) as page:
        page.write([Entry(ANY_PEER, State.ASK)])
        env = clean_env | {"PACELINE_PAGE": str(page.path)}
        with subprocess.Popen([sys.executable, "-c", PUSHES], env=env, stdout=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                page.beat(time.monotonic_ns())
                time.sleep(LONG_SLOT_NS / 1e9)
            assert process.stdout is not None
            # The fourth begins an iteration, and goes at once because the first was not answered.
            assert process.stdout.read() == "[True, False, False, False] False\n"
