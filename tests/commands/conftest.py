"""For tests of commands: as if Paceline had been installed without the testbed."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder

import pytest


class HidesBench(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == "bench":
            raise ModuleNotFoundError("No module named 'bench'", name="bench")


@pytest.fixture
def without_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "bench" or name.startswith("bench.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [HidesBench(), *sys.meta_path])
