"""A process that has become another user's is no job's any more, whatever its pid and its files say."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostd.monitor import monitor as monitor_module
from hostd.monitor.jobs_without_shim import JobWithoutShim
from hostd.monitor.monitor import HOUSEKEEPING_NS, Monitor
from hostd.monitor.process_identity import identity_of
from tests.hostd.conftest import next_line, wait_until

pytestmark = pytest.mark.root

NOBODY = 65534
JOB = """
import ctypes, os, sys
from pathlib import Path
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.python_writer import PythonWriter
os.setgroups([]), os.setgid(65534), os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as an exec does: what it has in /proc is its user's
if sys.argv[1] == "with shim":
    writer = PythonWriter(Identity("theirs", Path(sys.argv[2])))
print("ready", flush=True)
sys.stdin.readline()
os.execv(sys.argv[3], [sys.argv[3], "60"])
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Every user may put files there, and find programs."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made)


def test_a_process_is_the_same_until_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = identity_of(process.pid)
        assert before is not None and before == identity_of(process.pid)
        process.kill()
        process.wait()
        assert identity_of(process.pid) is None
    assert identity_of(os.getpid()) is not None


@pytest.mark.parametrize("kind", ["with shim", "without shim"])
@pytest.mark.parametrize(("mode", "stays"), [(0o755, True), (0o4755, False)], ids=["plain", "setuid"])
def test_an_exec_that_changes_the_user_ends_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: int, stays: bool
) -> None:
    program = directory / "sleep"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(mode)
    command = [sys.executable, "-c", JOB, kind, str(directory / "counters"), str(program)]
    (directory / "counters").mkdir()
    (directory / "counters").chmod(0o1777)
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[3], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert next_line(process) == "ready" and process.stdin is not None
            monkeypatch.setattr(monitor_module, "SEARCH_NS", 10**18)  # in between, processes are remembered
            listed = [JobWithoutShim("theirs", pid=process.pid)] if kind == "without shim" else []
            monitor = Monitor("h0", {}, 1e9, directory / "counters", lambda flow, sockets: None, listed)
            monitor.poll(HOUSEKEEPING_NS)
            assert set(monitor.jobs[f"{NOBODY}/theirs"].processes) == {process.pid}
            process.stdin.write("\n")
            process.stdin.flush()
            wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
            monitor.poll(3 * HOUSEKEEPING_NS)
            assert (f"{NOBODY}/theirs" in monitor.jobs) == stays
            if kind == "with shim" and not stays:
                assert monitor.invisible == {str(process.pid): f"was of uid {NOBODY}, and is of uid 0 since an exec"}
            monitor.close()
        finally:
            process.kill()
