"""Writer and readers on real files: replaced, cut, gone, forbidden, written while it is read."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nccl_shim.page.decision import OPEN, Answer
from nccl_shim.page.layout import Entry, State, bank_at, page_bytes, page_directory, peer_bytes
from nccl_shim.page.reader import RETRY_NS, PageReader, own_page
from nccl_shim.page.writer import PageWriter
from nccl_shim.segment.liveness import start_ticks
from tests.nccl_shim.page.pages import PEER, SLOT_NS, CPage

Look = Callable[[bytes, int], Answer]
DEFAULT = Path("/run/paceline/hostd/jobs/pages")
PACED = [Entry(PEER, State.RATE, 0, 125e6)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(params=["python", "c"])
def new_look(request: pytest.FixtureRequest, net_library: Path) -> Iterator[Callable[[Path], Look]]:
    """Opens either reader on a path."""
    closers: list[Callable[[], None]] = []

    def make(path: Path) -> Look:
        if request.param == "python":
            reader = PageReader(path)
            closers.append(reader.close)
            return reader.look
        page = CPage(net_library)
        opened = page.open(path)
        closers.append(lambda: page.close(opened))
        return lambda peer, now_ns: page.look(opened, peer, now_ns)

    yield make
    for close in closers:
        close()


def test_what_is_written_is_read(directory: Path, new_look: Callable[[Path], Look]) -> None:
    with PageWriter(directory, 12, 34, SLOT_NS) as page:
        assert page.path == directory / "12-34.page"
        look, now_ns = new_look(page.path), time.monotonic_ns()
        assert look(PEER, now_ns) == Answer(State.OPEN, slot_ns=SLOT_NS)
        for rate in (1e6, 2e6, 3e6):
            page.write([Entry(PEER, State.RATE, 0, rate)])
            assert look(PEER, now_ns).rate == rate
        page.write([])
        assert look(PEER, now_ns).state == State.OPEN


def test_without_a_heartbeat_it_is_as_if_it_were_not_there(directory: Path, new_look: Callable[[Path], Look]) -> None:
    with PageWriter(directory, 1, 1, SLOT_NS) as page:
        page.write(PACED)
        look, now_ns = new_look(page.path), time.monotonic_ns()
        assert look(PEER, now_ns).rate == 125e6
        assert look(PEER, now_ns + 6 * SLOT_NS) == OPEN
        page.beat(now_ns + 6 * SLOT_NS)
        assert look(PEER, now_ns + 6 * SLOT_NS).rate == 125e6


def test_a_page_that_comes_later_and_another_hostds(directory: Path, new_look: Callable[[Path], Look]) -> None:
    look, now_ns = new_look(directory / "1-1.page"), time.monotonic_ns()
    assert look(PEER, now_ns) == OPEN
    with PageWriter(directory, 1, 1, SLOT_NS) as page:
        page.write(PACED)
        now_ns += RETRY_NS
        page.beat(now_ns)
        assert look(PEER, now_ns).rate == 125e6
    assert not list(directory.iterdir())
    assert look(PEER, now_ns) == OPEN
    with PageWriter(directory, 1, 1, SLOT_NS) as page:
        page.write([Entry(PEER, State.RATE, 0, 5e6)])
        now_ns += 2 * RETRY_NS
        page.beat(now_ns)
        assert look(PEER, now_ns).rate == 5e6


def test_cut_empty_or_no_file_at_all(directory: Path, new_look: Callable[[Path], Look]) -> None:
    with PageWriter(directory, 1, 1, SLOT_NS, capacity=4) as page:
        page.write(PACED)
        look, now_ns = new_look(page.path), time.monotonic_ns()
        os.truncate(page.path, bank_at(2, 4) + 3)
        assert look(PEER, now_ns) == OPEN
        os.truncate(page.path, 0)
        assert look(PEER, now_ns + 2 * RETRY_NS) == OPEN
    os.mkfifo(directory / "pipe")
    for path in (directory, directory / "pipe", Path("/proc/self/mem"), directory / "x" / "y", Path("/dev/zero")):
        assert new_look(path)(PEER, now_ns) == OPEN


def test_readers_see_one_state_or_the_other(directory: Path, new_look: Callable[[Path], Look]) -> None:
    """Two entries that always have the same rate, written as fast as Python can."""
    other, stop = peer_bytes("10.0.0.9"), threading.Event()
    with PageWriter(directory, 1, 1, SLOT_NS) as page:

        def write() -> None:
            rate = 1e6
            while not stop.is_set():
                rate += 1
                page.write([Entry(PEER, State.RATE, 0, rate), Entry(other, State.RATE, 0, rate)])
                page.beat(time.monotonic_ns())

        page.write([Entry(PEER, State.RATE, 0, 1e6), Entry(other, State.RATE, 0, 1e6)])
        writer = threading.Thread(target=write)
        writer.start()
        look, seen, torn, last = new_look(page.path), 0, 0, 0.0
        until_s = time.monotonic() + 0.3
        try:
            while time.monotonic() < until_s:
                first, second = (look(peer, time.monotonic_ns()) for peer in (PEER, other))
                if State.OPEN in (first.state, second.state):  # overtaken twice within a look
                    torn += 1
                else:
                    assert last <= first.rate <= second.rate
                    seen, last = seen + 1, second.rate
        finally:
            stop.set()
            writer.join()
    assert seen > 100 and torn <= seen


@pytest.mark.root
def test_it_belongs_to_hostd_and_one_user_may_read_it(directory: Path) -> None:
    directory.chmod(0o755)
    with PageWriter(directory, 1, 1, SLOT_NS, uid=65534) as page:
        page.write(PACED)
        for parent in directory.parents:
            if str(parent) != "/" and not parent.stat().st_mode & 1:
                parent.chmod(parent.stat().st_mode | 0o111)
        assert _as_user(65534, page.path, os.O_RDONLY) and not _as_user(65533, page.path, os.O_RDONLY)
        assert page.path.stat().st_uid == 0 and not _as_user(65534, page.path, os.O_WRONLY)


def _as_user(uid: int, path: Path, flags: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(65533, 65533, 65533)
            os.setresuid(uid, uid, uid)
            os.close(os.open(path, flags))
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def test_more_peers_than_it_has_room_for_are_open(directory: Path) -> None:
    peers = [peer_bytes(f"10.0.1.{number}") for number in range(6)]
    with PageWriter(directory, 1, 1, SLOT_NS, capacity=4) as page:
        assert page.path.stat().st_size == page_bytes(4)
        page.write([Entry(peer, State.RATE, 0, 1e6) for peer in peers])
        reader = PageReader(page.path)
        assert [reader.look(peer).state for peer in peers] == [State.RATE] * 4 + [State.OPEN] * 2
        reader.close()


def test_where_a_process_finds_its_page(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    for name in ("PACELINE_PAGE", "PACELINE_PAGE_DIR", "PACELINE_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    assert page_directory(os.environ) == page_directory({"PACELINE_SOCKET": "0"}) == DEFAULT
    monkeypatch.setenv("PACELINE_SOCKET", "/mnt/jobs/hostd.sock")
    assert own_page() == Path(f"/mnt/jobs/pages/{os.getpid()}-{start_ticks(os.getpid())}.page")
    monkeypatch.setenv("PACELINE_PAGE_DIR", str(directory))
    assert own_page().parent == directory
    monkeypatch.setenv("PACELINE_PAGE", "/a/b")
    assert own_page() == Path("/a/b")


@pytest.mark.parametrize("in_c", [False, True])
def test_a_forked_child_has_a_page_of_its_own(
    monkeypatch: pytest.MonkeyPatch, directory: Path, net_library: Path, in_c: bool
) -> None:
    monkeypatch.delenv("PACELINE_PAGE", raising=False)
    monkeypatch.setenv("PACELINE_PAGE_DIR", str(directory))
    page, reader = CPage(net_library), PageReader()
    opened = page.open(None)

    def look() -> Answer:
        now_ns = time.monotonic_ns()
        return page.look(opened, PEER, now_ns) if in_c else reader.look(PEER, now_ns)

    with PageWriter(directory, os.getpid(), start_ticks(os.getpid()) or 0, 1_000_000_000) as writer:
        writer.write(PACED)
        assert look().rate == 125e6
        child = os.fork()
        if child == 0:
            os._exit(look() != OPEN)
        assert os.waitpid(child, 0)[1] == 0
        assert look().rate == 125e6
    page.close(opened)
    reader.close()


def test_c_finds_the_same(monkeypatch: pytest.MonkeyPatch, directory: Path, net_library: Path) -> None:
    monkeypatch.delenv("PACELINE_PAGE", raising=False)
    monkeypatch.delenv("PACELINE_PAGE_DIR", raising=False)
    monkeypatch.setenv("PACELINE_SOCKET", str(directory / "hostd.sock"))
    (directory / "pages").mkdir()
    page = CPage(net_library)
    with PageWriter(directory / "pages", os.getpid(), start_ticks(os.getpid()) or 0, SLOT_NS) as writer:
        writer.write(PACED)
        opened = page.open(None)
        assert page.look(opened, PEER, time.monotonic_ns()).rate == 125e6
        page.close(opened)


def opened(path: Path) -> set[int]:
    """This process's descriptors of the file."""
    links = {one.name: one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    return {int(number) for number, name in links.items() if name == path}


def test_a_descriptor_that_the_program_has_taken_over_is_the_programs(
    directory: Path, new_look: Callable[[Path], Look], tmp_path: Path
) -> None:
    """It closes all that it did not open, as daemons do, and opens its own."""
    with PageWriter(directory, 1, 1, SLOT_NS) as page:
        page.write(PACED)
        look, now_ns, before = new_look(page.path), time.monotonic_ns(), opened(page.path)
        assert look(PEER, now_ns).rate == 125e6
        [number] = opened(page.path) - before
        own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
        os.dup2(own, number)
        for later_ns in (0, RETRY_NS, 2 * RETRY_NS):
            page.beat(now_ns + later_ns)
            look(PEER, now_ns + later_ns)
        assert Path(f"/proc/self/fd/{number}").readlink() == tmp_path / "own"
        os.close(number)
        os.close(own)
