"""--version, everywhere."""

from collections.abc import Callable

import pytest

import hostd.__main__
import nccl_shim.__main__
import paceline.cli
import switchd.__main__

PROGRAMS: dict[str, Callable[[], object]] = {
    "paceline": lambda: paceline.cli.main(["--version"]),
    "hostd": lambda: hostd.__main__.main(["--version"]),
    "switchd": lambda: switchd.__main__.main(["--version"]),
    "nccl_shim": nccl_shim.__main__.main,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_version(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", [program, "--version"])
    try:
        status = PROGRAMS[program]()
    except SystemExit as ended:
        status = ended.code
    assert (status, *capsys.readouterr()) == (0, f"{program} {paceline.__version__}\n", "")
