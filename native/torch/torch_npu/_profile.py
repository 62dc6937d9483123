"""`torch.autograd.profiler.profile(use_npu=True)`: the spelling of torch 1.5 and 1.8.1."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._errors import ErrCode, prof_error

_original: Any = torch.autograd.profiler.profile


class profile(_original):  # type: ignore[misc]
    """torch's profiler of operators, which also knows `use_npu`: times on npu beside those on the host."""

    def __init__(
        self, enabled: bool = True, *, use_npu: bool = False, use_npu_simple: bool = False, **options: Any
    ) -> None:
        """`use_npu_simple` keeps the innermost operators only in a trace; torch's own traces always show all."""
        del use_npu_simple
        if use_npu and options.get("use_cuda"):
            raise RuntimeError("use_cuda and use_npu exclude each other: set one of them" + prof_error(ErrCode.PARAM))
        if use_npu:
            options["use_device"] = "npu"
        super().__init__(enabled, **options)


def install() -> None:
    """Take the place of torch's."""
    module: Any = torch.autograd.profiler
    profile.__module__ = module.__name__
    module.profile = profile
