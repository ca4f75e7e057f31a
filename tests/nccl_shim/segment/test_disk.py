"""Real full, read-only and forbidden places: mounted in a private namespace, or seen as another user."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nccl_shim.segment.test_writer import COUNT

AS_NOBODY = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c"]


def works(command: list[str]) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def check_one_line(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "SilentWriter"), done.stderr
    assert done.stderr.startswith("paceline: ") and done.stderr.count("\n") == 1, done.stderr


@pytest.fixture(params=["native", "python"])
def env(request: pytest.FixtureRequest, clean_env: dict, shm_dir: Path) -> dict[str, str]:
    without = {"PACELINE_SHIM_LIBRARY": "/nonexistent.so"} if request.param == "python" else {}
    return clean_env | {"D": str(shm_dir)} | without


@pytest.mark.skipif(not works(["unshare", "-Urm", "true"]), reason="no user namespaces here")
@pytest.mark.parametrize(
    ("options", "fill"), [("size=64k", ""), ("size=1m", "dd if=/dev/zero of=$D/f bs=64k;"), ("ro", "")]
)
def test_a_full_or_read_only_file_system_is_one_line(env: dict, options: str, fill: str) -> None:
    shell = f'mount -t tmpfs -o {options} none "$D" && {{ {fill} true; }} 2>/dev/null; exec "$@"'
    check_one_line(["unshare", "-Urm", "sh", "-c", shell, "sh", sys.executable, "-c", COUNT], env)


@pytest.mark.skipif(
    os.geteuid() != 0 or not works([*AS_NOBODY, "import nccl_shim.segment.writer"]),
    reason="cannot run this interpreter as another user",
)
def test_a_forbidden_directory_is_one_line(env: dict, shm_dir: Path) -> None:
    shm_dir.chmod(0o500)
    check_one_line([*AS_NOBODY, COUNT], env)
