"""Python imports this by itself when the launcher put its folder on PYTHONPATH.

Law: cheap in processes that never import torch, silent, and the sitecustomize that would have been imported
without this one (the distribution's, the user's) is imported all the same.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def _import_hidden_sitecustomize() -> None:
    here = str(Path(__file__).parent)
    path = [entry for entry in sys.path if entry and str(Path(entry).resolve()) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _install_paceline() -> None:
    if importlib.util.find_spec("nccl_shim") is None:
        # The job runs in another environment than Paceline: use the package this file belongs to.
        root = Path(__file__).parents[1]
        spec = importlib.util.spec_from_file_location(
            "nccl_shim", root / "__init__.py", submodule_search_locations=[str(root)]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"no package in {root}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["nccl_shim"] = module
        spec.loader.exec_module(module)
    from nccl_shim.hooks import injected

    injected.install()


try:
    _install_paceline()
except Exception as error:  # never the job's problem
    sys.stderr.write(f"paceline: not installed: {error!r}; training goes on unobserved\n")
_import_hidden_sitecustomize()
