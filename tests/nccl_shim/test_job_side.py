"""What runs inside a job needs nothing but Python, and an old one will do: the job's, not the daemons'."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.build import PACKAGE

OLDEST = (3, 9)
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "overhead" not in path.parts]
NEED_TORCH = {"boundary", "rpc_hook", "torch_count", "torch_hook"}
TYPING = {"TYPE_CHECKING", "Any", "Generic", "NamedTuple", "Protocol", "TypeVar"}  # as old as OLDEST
IMPORT = """
import importlib, pathlib, sys
sys.dont_write_bytecode = True
root, *names = sys.argv[1:]
sys.path.insert(0, root)
for name in names:
    importlib.import_module(name)
for path in sorted(pathlib.Path(root, "nccl_shim").rglob("*.py")):
    compile(path.read_bytes(), str(path), "exec")
from nccl_shim import ps
channel = ps.connect(role="worker", rank=0, world_size=2)
with channel.push(peer=1, size_bytes=1000):
    pass
assert channel.iteration_done() == 1
from nccl_shim.segment.reader import Reader
with Reader(estimate_waiting=True) as reader:
    [view] = reader.poll()
assert (view.alive, view.waiting_bytes, view.snapshot.enqueued_bytes) == (True, 0, 1000), view
"""


def oldest_python() -> str | None:
    """A Python of that version, if the machine has one."""
    name = "python{}.{}".format(*OLDEST)
    candidates = [shutil.which(name), *map(str, Path.home().glob(f".pyenv/versions/*/bin/{name}"))]
    for python in candidates:
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


def dotted(path: Path) -> str:
    parts = ("nccl_shim", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("python", [python for python in (sys.executable, oldest_python()) if python])
def test_it_imports_and_counts_with_the_standard_library_alone(python: str, clean_env: dict[str, str]) -> None:
    names = [dotted(path) for path in MODULES if path.stem not in NEED_TORCH | {"sitecustomize", "__main__"}]
    env = {name: value for name, value in clean_env.items() if name != "PYTHONPATH"}
    command = [python, "-S", "-W", "error", "-c", IMPORT, str(PACKAGE.parent), *names]  # -S: no site-packages
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_nothing_newer_is_evaluated(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=OLDEST)
    annotations = [node for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation]
    imported = {
        (node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert ("__future__", "annotations") in imported or not any("|" in ast.unparse(one) for one in annotations)
    assert {name for module, name in imported if module == "typing"} <= TYPING
