"""Builds torch_npu._C against the torch that is installed; run without build isolation."""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import setup

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch would load the package that is being built

from torch.utils.cpp_extension import BuildExtension, CppExtension

SOURCES = sorted(str(path) for path in Path("csrc").glob("*.cpp"))

setup(
    ext_modules=[CppExtension("torch_npu._C", SOURCES, extra_compile_args=["-O2", "-g0", "-fvisibility=hidden"])],
    cmdclass={"build_ext": BuildExtension},
)
