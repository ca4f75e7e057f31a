"""Every registered process has a page, from its registration to its end or hostd's; real processes, real files."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostd.pages.pages import Pages, pid_within
from hostd.registration.registrations import Ended, Registered
from nccl_shim.page.layout import ANY_PEER, Entry, State
from nccl_shim.page.reader import PageReader, own_page
from nccl_shim.segment.liveness import start_ticks
from tests.hostd.conftest import wait_until
from tests.hostd.registration.conftest import Desk, does

SLOT_NS = 1_000_000_000
HELD = [Entry(ANY_PEER, State.HELD, time.monotonic_ns() + 3_600_000_000_000)]
SAYS = "from nccl_shim.page.reader import PageReader; page = PageReader()"
ASKS = "assert page.look(bytes(16)).state == {state}, page.look(bytes(16))"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    made = Pages(tmp_path / "pages", SLOT_NS)
    yield made
    made.close()


def registered(pid: int, name: str = "a", uid: int | None = None) -> Registered:
    return Registered(name, pid, start_ticks(pid) or 0, os.getuid() if uid is None else uid, -1)


def files(pages: Pages) -> list[str]:
    return sorted(path.name for path in pages.directory.iterdir()) if pages.directory.exists() else []


def test_a_page_lasts_as_long_as_its_last_registration(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PAGE_DIR", str(pages.directory))
    pid = os.getpid()
    assert not pages.write(pid, HELD) and files(pages) == []
    pages.note(registered(pid, "a"))
    pages.note(registered(pid, "b"))
    assert pid in pages and pages.write(pid, []) and files(pages) == [], "nothing to say"
    assert pages.write(pid, HELD) and files(pages) == [own_page().name]
    reader = PageReader()
    assert reader.look(ANY_PEER).state == State.HELD
    assert pages.write(pid, []) and reader.look(ANY_PEER).state == State.OPEN
    pages.write(pid, HELD)
    pages.note(Ended("a"))
    assert reader.look(ANY_PEER).state == State.HELD
    pages.note(Ended("b"))
    assert reader.look(ANY_PEER).state == State.OPEN and files(pages) == []
    reader.close()


def test_only_its_user_may_read_it_and_only_we_may_list_them(pages: Pages) -> None:
    pages.note(registered(os.getpid()))
    pages.write(os.getpid(), HELD)
    [path] = pages.directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(pages.directory.stat().st_mode) == 0o711


def test_a_process_that_has_ended_has_none_though_no_registrar_says_so(pages: Pages) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pages.note(registered(process.pid))
        pages.write(process.pid, HELD)
        pages.remove_ended()
        assert len(files(pages)) == 1
        process.kill()
        process.wait()
        pages.remove_ended()
        assert files(pages) == []


def test_another_hostd_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    killed = Pages(tmp_path / "pages", SLOT_NS)
    killed.note(registered(os.getpid()))
    killed.write(os.getpid(), HELD)
    (tmp_path / "pages" / ".1-1.page.77").write_bytes(b"half made")
    (tmp_path / "pages" / "note").write_text("not ours")
    following = Pages(tmp_path / "pages", SLOT_NS)
    assert files(following) == ["note"]
    following.note(registered(os.getpid()))
    following.write(os.getpid(), HELD)
    assert len(files(following)) == 2


def test_what_cannot_be_made_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    pages = Pages(tmp_path / "file" / "pages", SLOT_NS)
    pages.note(registered(os.getpid()))
    pages.note(Registered("gone", 2**22 - 1, 1, 0, -1))
    assert not pages.write(os.getpid(), HELD) and not pages.write(2**22 - 1, HELD)
    assert os.getpid() not in pages and "which is not held" in caplog.text
    pages.beat()
    pages.close()


def test_of_two_processes_that_know_themselves_alike_the_first_has_the_page(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostd.pages.pages.pid_within", lambda _pid: 7)
    one, other = (Registered(name, pid, 5, os.getuid(), -1) for name, pid in (("a", 100), ("b", 200)))
    pages.note(one)
    pages.note(other)
    assert pages.write(100, HELD) and not pages.write(200, HELD) and pages.write(100, [])
    assert files(pages) == ["7-5.page"]


@pytest.mark.root
def test_in_a_container_it_has_the_pid_that_the_process_knows() -> None:
    program = "import os; print(os.getpid()); input()"
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert pid_within(int(child)) == 1 and pid_within(os.getpid()) == os.getpid()
        process.communicate("\n")


@pytest.mark.slow
def test_a_job_that_registers_reads_its_page(tmp_path: Path) -> None:
    with ExitStack() as stack:
        pages = Pages(tmp_path / "run" / "jobs" / "pages", SLOT_NS)
        stack.callback(pages.close)
        desk = Desk(tmp_path, stack, pages.note)
        process = desk.job()
        wait_until(lambda: process.pid in desk.pids())
        does(process, SAYS)
        pages.write(process.pid, HELD)
        does(process, ASKS.format(state=int(State.HELD)))
        process.kill()
        wait_until(lambda: not desk.pids())
        assert files(pages) == []
