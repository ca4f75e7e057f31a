"""With the service's two capabilities, the counters of every user's jobs can be read, and no other file of theirs."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostd.kernel import segment_search
from nccl_shim.segment import layout
from nccl_shim.segment.liveness import start_ticks
from tests.hostd.conftest import next_line
from tests.hostd.kernel.test_sockets import WITH_TWO_CAPABILITIES

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[3]
NOBODY = 65534

JOB_OF_ANOTHER_USER = """
import ctypes, os, sys
from pathlib import Path
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.python_writer import PythonWriter
os.setgroups([]), os.setgid(65534), os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as an exec does: what it has in /proc is its user's
writer = PythonWriter(Identity("theirs", Path(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
os._exit(1)
"""
READ = """
import sys, time
from pathlib import Path
from hostd.monitor import segment_access
from hostd.monitor.monitor import Monitor
[path] = Path(sys.argv[1]).iterdir()
try:
    path.open()
except PermissionError:
    print("not ours", flush=True)
searches, perform = [], segment_access.perform
segment_access.perform = lambda calls: searches.append(calls) or perform(calls)
monitor, now_ns = Monitor("h0", {}, 1e9, path.parent, lambda flow, sockets: None), 0
def look():
    global now_ns
    now_ns += 10**9
    monitor.poll(now_ns)
    return sorted(monitor.jobs), sorted(monitor.invisible)
print(*look(), flush=True)
sys.stdin.readline()
until_s = time.monotonic() + 10
while look()[0] and time.monotonic() < until_s:
    time.sleep(0.02)
print(*look(), len(searches), flush=True)
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """As hostd makes it: root's, and every user may put files there."""
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made)


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def reading(directory: Path) -> list[str]:
    return [sys.executable, "-c", WITH_TWO_CAPABILITIES, "-c", READ, str(directory)]


CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.mark.parametrize("around", [(), CONTAINER], ids=["process", "container"])
def test_counters_of_every_user_are_read_and_removed_when_it_is_dead(directory: Path, around: tuple[str, ...]) -> None:
    with running(*around, sys.executable, "-c", JOB_OF_ANOTHER_USER, str(directory)) as job:
        assert next_line(job) == "ready"
        with running(*reading(directory)) as monitor:
            assert next_line(monitor) == "not ours"
            assert next_line(monitor) == "['65534/theirs'] []"
            job.communicate("\n", timeout=30)
            assert monitor.communicate("\n", timeout=30)[0] == "[] [] 1\n"
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(("size_bytes", "searches"), [(layout.FILE_BYTES, 1), (10, 0)])
def test_a_file_that_its_alleged_writer_does_not_hold_is_looked_for_once(
    directory: Path, size_bytes: int, searches: int
) -> None:
    """And not at all where it cannot be a segment."""
    with running("sleep", "60") as innocent:
        file = directory / f"{innocent.pid}-{start_ticks(innocent.pid)}-0.pls"
        file.write_bytes(bytes(size_bytes))
        file.chmod(0o600)
        os.chown(file, NOBODY, NOBODY)
        with running(*reading(directory)) as monitor:
            assert next_line(monitor) == "not ours"
            assert next_line(monitor) == f"[] ['{file.name}']"
            assert monitor.communicate("\n", timeout=30)[0] == f"[] ['{file.name}'] {searches}\n"


def test_nothing_stays_open_of_a_file_that_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of the job's own (FUSE) may answer fstat with an error, in any number of files."""

    def refuse(*_files: object) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    started = start_ticks(os.getpid())
    assert started is not None
    with (tmp_path / "file").open("w") as held:
        wanted = os.fstat(held.fileno())
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208
        monkeypatch.setattr(segment_search.os, "fstat", refuse)
        for _ in range(5):
            with pytest.raises(FileNotFoundError):
                segment_search.duplicate_of(os.getpid(), started, wanted.st_dev, wanted.st_ino)
        monkeypatch.undo()
        with pytest.raises(FileNotFoundError):
            segment_search.duplicate_of(os.getpid(), started, wanted.st_dev + 1, wanted.st_ino)
        assert os.listdir("/proc/self/fd") == descriptors  # noqa: PTH208
        os.close(segment_search.duplicate_of(os.getpid(), started, wanted.st_dev, wanted.st_ino))
