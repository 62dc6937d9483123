"""Comparing two runs of a model module by module (`torch_npu.hooks` of 1.8.1): seed, name a file, register, run; then `tools.compare`."""

from __future__ import annotations

import itertools
import json
import os
import random
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from torch_npu._errors import ErrCode, pta_error
from torch_npu.hooks import tools

__all__ = ["register_acc_cmp_hook", "seed_all", "set_dump_path", "tools"]

_SAMPLES = 4096
_path: list[str] = []


def set_dump_path(fpath: str) -> None:
    """Where the values of the next run go; a file of that name is begun anew."""
    folder = os.path.dirname(os.path.abspath(fpath))
    if not os.path.isdir(folder):
        raise ValueError(f"the folder of the dump path {fpath} does not exist" + pta_error(ErrCode.NOT_FOUND))
    with open(fpath, "w", encoding="utf-8"):
        _path[:] = [fpath]


def seed_all(seed: int = 1234) -> None:
    """Seed every generator that a program may use: Python's, NumPy's, torch's on all devices."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def register_acc_cmp_hook(model: torch.nn.Module) -> None:
    """Write what goes into and comes out of each module from now on, forward and backward, to the file of `set_dump_path`."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model should be a torch.nn.Module but got {type(model).__name__}" + pta_error(ErrCode.TYPE))
    if not _path:
        raise RuntimeError(
            "call torch_npu.hooks.set_dump_path before register_acc_cmp_hook" + pta_error(ErrCode.INTERNAL)
        )
    for name, module in model.named_modules():
        if name:
            _watch(module, f"{name}_{type(module).__name__}")


def _watch(module: torch.nn.Module, name: str) -> None:
    runs = itertools.count()

    def tell(_module: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        number = next(runs)
        for direction, values in (("input", inputs), ("output", outputs)):
            for index, leaf in enumerate(tree_leaves(values)):
                if isinstance(leaf, torch.Tensor):
                    _tell_both_ways(f"Module.{name}.{number}", f"{direction}.{index}", leaf)

    module.register_forward_hook(tell)


def _tell_both_ways(head: str, tail: str, tensor: torch.Tensor) -> None:
    """A tensor now, and its gradient when the backward pass has it."""
    _write(f"{head}.forward.{tail}", tensor)
    if tensor.requires_grad:
        tensor.register_hook(lambda grad: _write(f"{head}.backward.{tail}", grad))


def _write(name: str, tensor: torch.Tensor) -> None:
    """A line: name, values (evenly taken where there are many), dtype, sizes, [largest, least, mean]."""
    values = tensor.detach().cpu().double().flatten()
    summary = [values.max().item(), values.min().item(), values.mean().item()] if values.numel() else []
    taken = values[:: max(1, values.numel() // _SAMPLES)].tolist()
    with open(_path[0], "a", encoding="utf-8") as file:
        json.dump([name, taken, str(tensor.dtype), list(tensor.shape), summary], file)
        file.write("\n")
