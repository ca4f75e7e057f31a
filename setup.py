"""Which packages are installed, three C libraries (nccl_shim's two and the simulator's), and files for operators.

Without a compiler Paceline installs all the same, and does without the libraries.
"""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
# By extension: the module and its function that builds it, and what is done without it.
BUILT_BY = {
    "nccl_shim.libpaceline_shim": ("nccl_shim/build.py", "build", "nccl_shim is pure Python, without the NCCL plugin"),
    "nccl_shim.libpaceline_net": ("nccl_shim/build.py", "build_net", "there is no paceline run --throttle"),
    "paceline.sim.kernel.network": ("paceline/sim/kernel/build.py", "build", "the simulator runs in numpy, and slower"),
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
        path, function, without = BUILT_BY[extension.name]
        module = builder(path)
        try:
            getattr(module, function)(target)
        except (module.NoCompiler, OSError) as error:
            self.warn(f"{without}: {error}")

    def copy_extensions_to_source(self) -> None:  # editable installs
        for extension in self.extensions:
            built = Path(self.build_lib, self.get_ext_filename(extension.name))
            if built.exists():
                self.copy_file(str(built), self.get_ext_filename(extension.name))


class BuildPackages(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a checkout has them at its top: paceline/commands/install/shipped.py
            for name in ("deploy", "scenarios"):
                self.copy_tree(str(HERE / name), str(Path(self.build_lib, "paceline", "share", name)))


class BuildWheel(bdist_wheel):
    """One for every Python: ctypes and NCCL load the libraries, which know nothing of Python."""

    def run(self) -> None:
        # What an older version left there would be in the wheel, whatever its name.
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


# Nothing else of ours may stand at the top of site-packages: other packages have such names. bench is for the checkout,
# and an editable install is one.
AT_THE_TOP = ["paceline", "hostd", "switchd", "nccl_shim"]
if "editable_wheel" in sys.argv:
    AT_THE_TOP.append("bench")

setup(
    packages=find_packages(include=[pattern for name in AT_THE_TOP for pattern in (name, f"{name}.*")]),
    ext_modules=[Extension(name, [], optional=True) for name in BUILT_BY],
    cmdclass={"bdist_wheel": BuildWheel, "build_ext": BuildSharedLibrary, "build_py": BuildPackages},
)
