"""The compiled module, and the description that package indexes show; everything else stands in pyproject.toml.

The module is optional: without a C compiler the package is installed without it and runs in Python. With
KAFKA_SHARE_PURE_PYTHON=1 nothing is compiled, and the wheel is one for every platform.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent
NATIVE = "kafka_share/native"
MISSING = (
    "kafka_share is built without its compiled module, for which a C compiler and the headers of Python are needed. "
    "It works without it, and takes more CPU time for each record.\n"
)


def description() -> str:
    """README.md with absolute links to the repository of `[project.urls]`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source = project["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        path = link[1].partition("#")[0]
        return f"]({source}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{link[1]})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", absolute, (ROOT / "README.md").read_text("utf-8"))


def extensions() -> list[Extension]:
    """What is compiled: setuptools hands the .pyx to Cython, which `build-system.requires` brings."""
    if os.environ.get("KAFKA_SHARE_PURE_PYTHON") == "1":
        return []
    name, source = "kafka_share.native._compiled", f"{NATIVE}/_compiled.pyx"
    return [Extension(name, [source], include_dirs=[NATIVE], optional=True)]


class OptionalBuildExt(build_ext):
    """Builds anew each time; where the module cannot be built, one plain line says so."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True  # what lies in build/ may come from other compiler options
        self.cython_c_in_temp = True  # no generated C beside the source

    def build_extension(self, ext: Any) -> None:
        if self.compiler.compiler_type != "msvc" and "CFLAGS" not in os.environ:
            ext.extra_compile_args = ["-O3", "-g0"]  # a tenth faster than with -O2; a fifth of the size
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError):
            sys.stderr.write(MISSING)
            raise  # setuptools says what failed, and goes on: the extension is optional


if __name__ == "__main__":
    setup(
        long_description=description(),
        long_description_content_type="text/markdown",
        ext_modules=extensions(),
        cmdclass={"build_ext": OptionalBuildExt},
    )
