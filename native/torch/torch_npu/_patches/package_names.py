"""Names of `torch_npu` that are neither operators nor modules, and those that come with a later part."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from torch_npu import _environment
from torch_npu._errors import ErrCode, dist_error, pta_error
from torch_npu.dumper import dumper, get_op_map
from torch_npu.npu.graph_mode import print_npugraph_tensor, save_npugraph_tensor
from torch_npu.npu.streams import erase_stream

_TOLERANCE = 16.0  # rounding inside of the sums, in units of the precision they are computed in


def matmul_checksum(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> bool:
    """Whether `c` is not the product of `a` and `b`: sums of its rows against those that the factors give. True is a fault."""
    wide = torch.float64 if c.dtype == torch.float64 else torch.float32
    left, right, product = a.to(wide), b.to(wide), c.to(wide)
    wanted = (left @ right.sum(-1, keepdim=True)).squeeze(-1)
    bound = (left.abs() @ right.abs().sum(-1, keepdim=True)).squeeze(-1)
    rounded = torch.finfo(c.dtype).eps * product.abs().sum(-1)  # each element may be off by half of that
    allowed = rounded + torch.finfo(wide).eps * _TOLERANCE * bound
    return bool(((product.sum(-1) - wanted).abs() > allowed).any())


def _later(name: str, what: str, line: Callable[[ErrCode], str]) -> type:
    """A class that says, when it is used, that this version does not have it."""

    def refuse(self: Any, *_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError(
            f"torch_npu.{name} ({what}) is not supported by this version of softnpu-torch" + line(ErrCode.NOT_SUPPORT)
        )

    return type(name, (), {"__init__": refuse, "__doc__": f"{what}: not in this version.", "__module__": "torch_npu"})


def install(package: ModuleType) -> None:
    """Put the names in their places; the sanitizer begins when the environment asks for it."""
    elsewhere: dict[str, Any] = {
        "erase_stream": erase_stream,
        "matmul_checksum": matmul_checksum,
        "print_npugraph_tensor": print_npugraph_tensor,
        "save_npugraph_tensor": save_npugraph_tensor,
        "HiFloat8Tensor": _later("HiFloat8Tensor", "tensors of hifloat8", pta_error),
        "ParallelStore": _later("ParallelStore", "the store of torch_npu_run", dist_error),
        "_ShardedGradScaler": _later("_ShardedGradScaler", "loss scaling of FSDP", dist_error),
    }
    for name, value in elsewhere.items():
        setattr(package, name, value)
        if not name.startswith("_") and name not in package.__all__:
            package.__all__.append(name)
    tools: Any = torch.utils
    tools.dumper, tools.get_op_map = dumper, get_op_map
    if _environment.text("TORCH_NPU_SANITIZER"):
        from torch_npu._watch.sanitizer import enable_npu_sanitizer  # it loads parts of torch.cuda

        enable_npu_sanitizer()
