"""`run --throttle`: what it adds for which transport, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nccl_shim.throttle import ThrottleRefused, throttle_environment

COMMAND = [sys.executable, "-m", "nccl_shim", "run", "--job", "j", "--json"]


@pytest.fixture
def library(tmp_path: Path) -> str:
    path = tmp_path / "libpaceline_net.so"
    path.touch()
    return str(path)


@pytest.fixture
def rdma(tmp_path: Path) -> Path:
    (tmp_path / "infiniband" / "mlx5_0").mkdir(parents=True)
    return tmp_path / "infiniband"


@pytest.mark.parametrize(
    ("env", "added"),
    [
        ({}, {}),
        ({"NCCL_NET": "AWS Libfabric"}, {}),
        ({"NCCL_NET": "Socket"}, {"PACELINE_NET_WRAPS": "none", "NCCL_NET": "Paceline"}),
        ({"NCCL_NET_PLUGIN": "none"}, {"PACELINE_NET_WRAPS": "none"}),
        ({"NCCL_NET_PLUGIN": "aws-ofi"}, {"PACELINE_NET_WRAPS": "aws-ofi"}),
        ({"NCCL_NET_PLUGIN": "a,b", "NCCL_NET": "AWS Libfabric"}, {"PACELINE_NET_WRAPS": "a,b"}),
    ],
)
def test_what_is_added(library: str, tmp_path: Path, env: dict[str, str], added: dict[str, str]) -> None:
    own = env | {"PACELINE_NET_LIBRARY": library}
    assert throttle_environment(own, tmp_path / "none") == added | {"NCCL_NET_PLUGIN": library}
    again = throttle_environment(own | added | {"NCCL_NET_PLUGIN": library}, tmp_path / "none")
    assert again == {"NCCL_NET_PLUGIN": library}, "what an outer run found stays"


def test_a_plugin_that_nccl_would_find_by_itself_is_wrapped(library: str, tmp_path: Path, rdma: Path) -> None:
    (tmp_path / "libnccl-net.so").touch()
    env = {"PACELINE_NET_LIBRARY": library, "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}
    added = {"NCCL_NET_PLUGIN": library, "PACELINE_NET_WRAPS": "libnccl-net.so"}
    assert throttle_environment(env, rdma) == added, "named, so that nothing takes its place where it cannot be wrapped"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"PACELINE_NET_LIBRARY": "/nonexistent/x.so"}, "no /nonexistent/x.so; run python -m nccl_shim.build"),
        ({"NCCL_NET": "IB"}, "cannot be wrapped"),
        ({}, "NCCL would use mlx5_0 by itself"),
        ({"NCCL_NET_PLUGIN": "none"}, "NCCL would use mlx5_0 by itself"),
    ],
)
def test_what_is_refused(library: str, rdma: Path, env: dict[str, str], words: str) -> None:
    with pytest.raises(ThrottleRefused, match=words):
        throttle_environment({"PACELINE_NET_LIBRARY": library} | env, rdma)


@pytest.mark.parametrize("env", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_tcp_beside_infiniband_if_the_user_says_so(library: str, rdma: Path, env: dict[str, str]) -> None:
    assert throttle_environment({"PACELINE_NET_LIBRARY": library} | env, rdma)["NCCL_NET_PLUGIN"] == library


def test_only_with_the_flag(clean_env: dict[str, str], library: str) -> None:
    env = clean_env | {"PACELINE_NET_LIBRARY": library, "NCCL_IB_DISABLE": "1"}
    plain, throttled = (
        json.loads(subprocess.run([*COMMAND, *flag, "--", "true"], env=env, capture_output=True, check=True).stdout)
        for flag in ([], ["--throttle"])
    )
    assert throttled["environment"] == plain["environment"] | {"NCCL_NET_PLUGIN": library}
    assert not [name for name in plain["environment"] if "NET" in name]


def test_a_missing_library_is_one_line(clean_env: dict[str, str]) -> None:
    env = clean_env | {"PACELINE_NET_LIBRARY": "/nonexistent.so"}
    done = subprocess.run([*COMMAND, "--throttle", "--", "true"], env=env, capture_output=True, text=True, check=False)
    line = "paceline run: --throttle: no /nonexistent.so; run python -m nccl_shim.build\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
