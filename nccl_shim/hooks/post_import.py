"""Runs a function after a module was imported. Law: imports nothing early, and an import that fails, fails as
it would have without this finder.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any


class AfterImport(importlib.abc.MetaPathFinder):
    """A finder that finds nothing itself: it adds a last step to the loading of the modules it waits for."""

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self._actions = dict(actions)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self._actions.pop(fullname, None)
        if action is None:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)  # an old one has none, and is passed over
            spec = find_spec(fullname, path, target) if find_spec is not None and finder is not self else None
            if spec is not None:
                found: importlib.machinery.ModuleSpec = spec
                _append_step(found, action)
                return found
        return None


def _append_step(spec: importlib.machinery.ModuleSpec, action: Callable[[], None]) -> None:
    loader: Any = spec.loader  # not all that pass for loaders are declared as such
    exec_module = getattr(loader, "exec_module", None)
    if exec_module is None:
        return

    def exec_then_act(module: ModuleType) -> None:
        exec_module(module)
        action()

    with suppress(Exception):  # one that takes no attribute loads as it would have
        loader.exec_module = exec_then_act
