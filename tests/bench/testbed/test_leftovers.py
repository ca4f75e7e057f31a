"""A testbed whose owner is killed leaves nothing, and `clean` finds what would not die by itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import pytest

from bench.child_process import OWNER_VARIABLE, owner_mark, pid_namespace
from bench.testbed.leftovers import marked_processes, new_directory, remove_leftovers

pytestmark = pytest.mark.root

OWNER = """
import json, os, sys, time
from bench.testbed.leftovers import new_directory
from bench.testbed.network import Testbed
from paceline.flowcore.model.topology import star
testbed = Testbed(star(2, 1.0))
sleeper = "import time; time.sleep(600)"
children = [node.popen([sys.executable, "-c", sleeper]) for node in testbed.nodes.values()]
# A grandchild does not die with the owner: the kernel kills children only.
start = f"subprocess.Popen([sys.executable, '-c', {sleeper!r}])"
parent = f"import subprocess, sys; child = {start}; print(child.pid, flush=True); {sleeper}"
middle = testbed.nodes["h0"].popen([sys.executable, "-c", parent], stdout=-1, text=True)
grandchild = int(middle.stdout.readline())
pids = [child.pid for child in children] + [middle.pid]
print(json.dumps({"pids": pids, "grandchild": grandchild, "directory": str(new_directory())}), flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: object, timeout_s: float = 30) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:  # type: ignore[operator]
        time.sleep(0.01)
    return bool(condition())  # type: ignore[operator]


def test_a_killed_owner_leaves_nothing_and_clean_takes_the_rest() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        left = json.loads(owner.stdout.readline())
        try:
            mark = owner_mark(owner.pid)
            assert {pid for pid, of in marked_processes() if of == mark} == {*left["pids"], left["grandchild"]}
            remove_leftovers()  # takes nothing of an owner that lives
            assert all(map(alive, [*left["pids"], left["grandchild"]]))
            assert Path(left["directory"]).is_dir()
        finally:
            owner.send_signal(signal.SIGKILL)
        assert wait_until(lambda: not any(map(alive, left["pids"])))
        assert alive(left["grandchild"])
        assert not alive(owner.pid), "a zombie, because its parent, this test, has not waited for it"
        removed = remove_leftovers()
        assert left["grandchild"] in removed.pids
        assert not alive(left["grandchild"]), "gone when it returns"
        assert left["directory"] in removed.directories
        assert not Path(left["directory"]).exists()


def test_processes_of_owners_in_another_container_are_left_alone() -> None:
    """An owner in a container that shares our /dev/shm, and one of another version."""
    elsewhere = f"{pid_namespace() + 1}-{os.getpid()}-1"
    place = new_directory()
    place.rmdir()
    others = [Path(mkdtemp(prefix=f"paceline-testbed-{mark}-", dir=place.parent)) for mark in (elsewhere, "1-1")]
    with subprocess.Popen(["sleep", "60"], env=os.environ | {OWNER_VARIABLE: elsewhere}) as theirs:
        try:
            assert wait_until(lambda: (theirs.pid, elsewhere) in marked_processes())
            remove_leftovers()
            assert alive(theirs.pid)
            assert all(directory.is_dir() for directory in others)
        finally:
            theirs.kill()
            for directory in others:
                shutil.rmtree(directory, ignore_errors=True)


def test_the_directory_of_a_living_owner_stays() -> None:
    directory = new_directory()
    remove_leftovers()
    assert directory.is_dir()
    directory.rmdir()
