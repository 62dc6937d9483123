"""What a process has set up: there is one mixed precision per process, as there is one `torch` whose functions are patched."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from apex.amp.handle import AmpHandle
    from apex.amp.options import Properties
    from apex.amp.scaler import LossScaler


class AmpState:
    """Filled by `amp.initialize`. Programs set the first two to let things pass that amp would refuse."""

    def __init__(self) -> None:
        self.hard_override = False
        self.allow_incoming_model_not_fp32 = False
        self.verbosity = 1
        self.opt_properties: Properties | None = None
        self.loss_scalers: list[LossScaler] = []
        self.handle: AmpHandle | None = None


_amp_state = AmpState()


def warn_or_err(message: str) -> None:
    """An error, or with `_amp_state.hard_override` a warning."""
    if not _amp_state.hard_override:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=3)


def maybe_print(message: str, rank0: bool = False) -> None:
    """Tell the user unless verbosity is 0; `rank0`: only in the first process."""
    first = not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
    if _amp_state.verbosity > 0 and (first or not rank0):
        print(message)


def master_params(optimizer: Any) -> Iterator[Tensor]:
    """The parameters that the optimizer updates: the float32 masters with O2."""
    for group in optimizer.param_groups:
        yield from group["params"]
