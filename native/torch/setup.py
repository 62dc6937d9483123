"""Builds torch_npu._C against the torch that is installed; run without build isolation."""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import setup

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch would load the package that is being built

from torch.utils.cpp_extension import BuildExtension, CppExtension

OPTIONS = ["-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra"]
if (
    os.environ.get("SOFTNPU_WERROR") == "1"
):  # set by the Makefile in CI; a newer compiler that warns of more must not stop an installation
    OPTIONS.append("-Werror")


def extension() -> CppExtension:
    """The module; torch's headers are a system's headers, so that warnings are about our code alone."""
    sources = sorted(str(path) for path in Path("csrc").rglob("*.cpp"))
    module = CppExtension("torch_npu._C", sources)
    system = [word for folder in module.include_dirs for word in ("-isystem", folder)]
    module.include_dirs = [str(Path("csrc").resolve())]
    module.extra_compile_args = {"cxx": [*OPTIONS, *system]}
    return module


setup(ext_modules=[extension()], cmdclass={"build_ext": BuildExtension})
