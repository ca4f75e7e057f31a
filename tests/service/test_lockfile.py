"""One instance, until its process is gone."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.service.lockfile import AlreadyRunning, only_instance


def test_a_second_instance_is_told_who_has_it(tmp_path: Path) -> None:
    lock = tmp_path / "hostd.lock"
    with only_instance(lock):
        assert lock.read_text() == f"{os.getpid()}\n"
        line = rf"another instance \(pid {os.getpid()}\) is running; it holds {lock}"
        with pytest.raises(AlreadyRunning, match=line), only_instance(lock):
            pass
    with only_instance(lock):
        pass


def test_kill_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "hostd.lock"
    code = (
        "import sys, time; from pathlib import Path; from paceline.service.lockfile import only_instance\n"
        "with only_instance(Path(sys.argv[1])): print(flush=True); time.sleep(100)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(AlreadyRunning, match=f"pid {holder.pid}"), only_instance(lock):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with only_instance(lock):
        pass


@pytest.mark.parametrize("before", [None, 0o644])
def test_no_other_user_can_take_the_lock(tmp_path: Path, before: int | None) -> None:
    """flock asks for a descriptor only; an earlier release left the file readable to every user."""
    lock = tmp_path / "hostd.lock"
    if before is not None:
        lock.touch()
        lock.chmod(before)
    mask = os.umask(0)
    try:
        with only_instance(lock):
            assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    finally:
        os.umask(mask)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    link = tmp_path / "hostd.lock"
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"), only_instance(link):
        pass
    assert target.read_text() == "kept"
