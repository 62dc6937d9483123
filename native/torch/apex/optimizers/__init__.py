"""The fused optimizers under the names of apex, with its defaults where they differ, and LAMB without buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch_npu.optim as _fused

from apex.optimizers.lamb import Lamb


def _of_apex(fused: Any) -> Any:
    """The class under the flag by which programs for apex know it."""
    more = {"is_npu_fused_optimizer": True, "__module__": __name__, "__doc__": fused.__doc__}
    return type(fused.__name__, (fused,), more)


NpuFusedSGD = _of_apex(_fused.NpuFusedSGD)
NpuFusedAdam = _of_apex(_fused.NpuFusedAdam)
NpuFusedAdamW = _of_apex(_fused.NpuFusedAdamW)
NpuFusedAdamP = _of_apex(_fused.NpuFusedAdamP)
NpuFusedAdadelta = _of_apex(_fused.NpuFusedAdadelta)
NpuFusedLamb = _of_apex(_fused.NpuFusedLamb)
NpuFusedRMSprop = _of_apex(_fused.NpuFusedRMSprop)
NpuFusedRMSpropTF = _of_apex(_fused.NpuFusedRMSpropTF)


class NpuFusedBertAdam(_fused.NpuFusedBertAdam):
    """See torch_npu.optim; the second moment is shorter here and nothing is clipped unless asked for."""

    is_npu_fused_optimizer = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.99,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = -1,
    ) -> None:
        super().__init__(params, lr, warmup, t_total, schedule, b1, b2, e, weight_decay, max_grad_norm)


_CUDA = {"FusedSGD": "NpuFusedSGD", "FusedAdam": "NpuFusedAdam", "FusedLAMB": "NpuFusedLamb"}


def __getattr__(name: str) -> NoReturn:
    if name in _CUDA:
        raise ImportError(f"apex.optimizers.{name} needs CUDA kernels: use apex.optimizers.{_CUDA[name]} on npu")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Lamb",
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
