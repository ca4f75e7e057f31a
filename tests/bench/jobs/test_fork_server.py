"""What cannot be imported is said in one line."""

from pathlib import Path

import pytest

from bench.jobs.fork_server import ForkServer, ForkServerError
from bench.jobs.launch import fork_server_environment


def test_what_cannot_be_imported_is_said() -> None:
    with pytest.raises(ForkServerError, match="no_such_module"):
        ForkServer(["bench.no_such_module"], fork_server_environment())


def test_without_torch_the_hint_fits_every_command(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError(\"No module named 'torch'\", name='torch')")
    env = fork_server_environment()
    with pytest.raises(ForkServerError) as refused:
        ForkServer(["bench.workload.ddp"], env | {"PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"})
    assert str(refused.value) == (
        "No module named 'torch'; real jobs need it (scripts/setup torch), synthetic ones do not"
    )
