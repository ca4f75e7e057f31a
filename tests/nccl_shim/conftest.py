"""Fixtures: a directory for segments, the built library, and writers of both kinds."""

from pathlib import Path

import pytest

from nccl_shim import build
from nccl_shim.segment import clibrary, writer
from nccl_shim.segment.identity import Identity
from nccl_shim.segment.python_writer import PythonWriter
from tests.nccl_shim.ranks import child_env


@pytest.fixture(scope="session")
def library_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built from the source under test: a stale one beside the package must not pass."""
    return build.build(tmp_path_factory.mktemp("lib") / build.LIBRARY_NAME, ["-Werror"])


@pytest.fixture(scope="session")
def net_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build_net(tmp_path_factory.mktemp("net") / build.NET_LIBRARY_NAME, ["-Werror"])


@pytest.fixture(scope="session")
def library(library_path: Path):
    return clibrary.load_library(library_path)


@pytest.fixture
def shm_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shm")


@pytest.fixture
def clean_env(library_path: Path, shm_dir: Path) -> dict[str, str]:
    return child_env(library_path, shm_dir)


@pytest.fixture(params=["native", "python"])
def new_writer(request: pytest.FixtureRequest, library):
    """Makes a writer of either kind for an identity."""

    def make(identity: Identity):
        if request.param == "python":
            return PythonWriter(identity)
        header = library.pls_create(clibrary.CIdentity.of(identity), None, 0)
        assert header, "segment not created"
        return writer.NativeWriter(library, header)

    return make
