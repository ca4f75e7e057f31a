"""Which packages are installed, and two C libraries: nccl_shim's, and the simulator's inner loops.

Without a compiler Paceline installs all the same, and does without them.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
# By extension: the module that builds it, and what is done without it.
BUILT_BY = {
    "nccl_shim.libpaceline_shim": ("nccl_shim/build.py", "nccl_shim is pure Python, without the NCCL plugin"),
    "paceline.sim.kernel.network": ("paceline/sim/kernel/build.py", "the simulator runs in numpy, and slower"),
}


def builder(path: str) -> ModuleType:
    """By path: the package may not be importable inside pip's build environment."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), HERE / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildSharedLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"  # a plain library for NCCL and ctypes, not a Python module

    def build_extension(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        path, without = BUILT_BY[extension.name]
        module = builder(path)
        try:
            module.build(target)
        except (module.NoCompiler, OSError) as error:
            self.warn(f"{without}: {error}")

    def copy_extensions_to_source(self) -> None:  # editable installs
        for extension in self.extensions:
            built = Path(self.build_lib, self.get_ext_filename(extension.name))
            if built.exists():
                self.copy_file(str(built), self.get_ext_filename(extension.name))


# Nothing else of ours may stand at the top of site-packages: other packages have such names. bench is for the checkout,
# and an editable install is one.
AT_THE_TOP = ["paceline", "hostd", "switchd", "nccl_shim"]
if "editable_wheel" in sys.argv:
    AT_THE_TOP.append("bench")

setup(
    packages=find_packages(include=[pattern for name in AT_THE_TOP for pattern in (name, f"{name}.*")]),
    ext_modules=[Extension(name, [], optional=True) for name in BUILT_BY],
    cmdclass={"build_ext": BuildSharedLibrary},
)
