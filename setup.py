"""Which packages are installed, and nccl_shim's C library; without a compiler Paceline installs and says so at use."""

import importlib.util
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

# By path: the package may not be importable inside pip's build environment.
spec = importlib.util.spec_from_file_location("shim_build", Path(__file__).parent / "nccl_shim" / "build.py")
shim_build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shim_build)


class BuildSharedLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"  # a plain library for NCCL and ctypes, not a Python module

    def build_extension(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shim_build.build(target)
        except (shim_build.NoCompiler, OSError) as error:
            self.warn(f"nccl_shim falls back to pure Python, without the NCCL plugin: {error}")

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
    ext_modules=[Extension("nccl_shim.libpaceline_shim", [], optional=True)],
    cmdclass={"build_ext": BuildSharedLibrary},
)
