"""torch_npu.utils.cpp_extension: C++ extensions that use npu, built by setuptools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.cpp_extension import BuildExtension, CppExtension

from torch_npu.adapt import include_path

__all__ = ["BuildExtension", "NpuExtension", "include_paths"]


def include_paths() -> list[str]:
    """The folders with the headers `torch_npu/csrc/...`."""
    return [include_path()]


def NpuExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """A `setuptools.Extension` for a C++ extension; the headers need no library, torch's are linked."""
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *include_paths()]
    return CppExtension(name, list(sources), *args, **kwargs)
