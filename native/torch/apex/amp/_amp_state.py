"""What a process has set up: there is one mixed precision per process, as there is one `torch` whose functions are patched."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor

from apex.amp.scaler import LossScaler


class Halves(Protocol):
    """What keeps weights in half precision (`casts.Cache`)."""

    def half(self, x: Tensor) -> Tensor: ...


class Casts(Protocol):
    """The casts of a process and their switch (`handle.AmpHandle`)."""

    active: bool

    @property
    def cache(self) -> Halves | None: ...

    def replace(self, module: Any, name: str, function: Any) -> None: ...

    def clear_cache(self) -> None: ...

    def deactivate(self) -> None: ...


class Chosen(Protocol):
    """What `amp.initialize` was asked for (`options.Properties`)."""

    options: dict[str, Any]


class AmpState:
    """Filled by `amp.initialize`. Programs set the first two to let things pass that amp would refuse."""

    def __init__(self) -> None:
        self.hard_override = False
        self.allow_incoming_model_not_fp32 = False
        self.verbosity = 1
        self.opt_properties: Chosen | None = None
        self.loss_scalers: list[LossScaler] = []
        self.handle: Casts | None = None


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
