"""The wheel: what is in it, and its name. scripts/wheel-check installs it beside packages of clashing names."""

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import nccl_shim
import paceline

pytestmark = pytest.mark.slow  # it compiles

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def tracked() -> list[str]:
    """Files of the checkout, without what git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return listed.stdout.decode().rstrip("\0").split("\0")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, with what an older version may have left in its build folder."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in tracked():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    for left in ("lib", f"lib.linux-{sys.platform}"):
        (source / "build" / left / "cluster").mkdir(parents=True)
        (source / "build" / left / "cluster" / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", BUILD, str(place)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [made] = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return set(ZipFile(wheel).namelist())


def test_only_our_own_names_are_at_its_top(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"paceline", "hostd", "switchd", "nccl_shim"}


def test_one_is_for_every_python(wheel: Path) -> None:
    python, abi, platform = wheel.stem.split("-")[2:]
    assert (python, abi) == ("py3", "none")
    assert platform.startswith("linux_"), "the libraries are this machine's"


def test_libraries_and_files_for_operators_are_in_it(names: set[str]) -> None:
    libraries = {f"nccl_shim/libpaceline_{name}.so" for name in ("shim", "net")}
    assert libraries | {"paceline/sim/kernel/network.so"} <= names
    for folder in ("deploy", "scenarios"):
        there = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {f"paceline/share/{name}" for name in there} <= names


def test_every_file_of_its_packages_is_in_it(names: set[str]) -> None:
    """Modules, and what they read: C sources, pages, examples."""
    tops = ("paceline/", "hostd/", "switchd/", "nccl_shim/")
    assert not {name for name in tracked() if name.startswith(tops) and (ROOT / name).exists()} - names


def test_its_version_is_everywhere_the_same(wheel: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wheel.name.split("-")[1] == version == paceline.__version__ == nccl_shim.__version__
