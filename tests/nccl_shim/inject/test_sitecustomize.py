"""What Python imports by itself in every process of an observed job."""

import os
import subprocess
import sys
from pathlib import Path

from nccl_shim.launcher import INJECT

RUN = [sys.executable, "-m", "nccl_shim", "run", "--"]


def test_the_users_own_sitecustomize_still_runs(clean_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    env = clean_env | {"PYTHONPATH": f"{tmp_path}:{clean_env['PYTHONPATH']}"}
    show = "import sys; print('nccl_shim.hooks.torch_hook' in sys.modules)"
    done = subprocess.run(
        [*RUN, sys.executable, "-c", show], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "theirs\ntheirs\nFalse\n", "")


def test_a_job_in_another_environment_finds_the_package(clean_env: dict[str, str], tmp_path: Path) -> None:
    """Where Paceline is not installed, the package is the one that sitecustomize.py belongs to."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True, timeout=60)
    other = str(tmp_path / "bin" / "python")
    importable = subprocess.run([other, "-c", "import nccl_shim"], cwd="/", capture_output=True, check=False)
    assert importable.returncode, "or the rest shows nothing"
    show = "import nccl_shim, sys; print(nccl_shim.__file__, 'AfterImport' in repr(sys.meta_path), sep='\\n')"
    env = clean_env | {"PYTHONPATH": str(INJECT)}
    done = subprocess.run([other, "-c", show], env=env, cwd="/", capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == ([str(INJECT.parent / "__init__.py"), "True"], "")


def test_a_package_that_cannot_be_loaded_is_one_line(clean_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nccl_shim").mkdir()
    (tmp_path / "nccl_shim" / "__init__.py").write_text("raise RuntimeError('of another version')\n")
    env = clean_env | {"PYTHONPATH": os.pathsep.join([str(INJECT), str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, "-c", "print('runs')"], env=env, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert done.stderr.count("\n") == 1 and "training goes on unobserved" in done.stderr
