"""Dropouts. On the chip they make masks ahead or keep them small; what they compute is `torch.nn.Dropout`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class DropoutV2(torch.nn.Dropout):
    """The dropout of the older library."""


class DropoutWithByteMask(torch.nn.Dropout):
    """The dropout that keeps a byte for each value on the chip."""


class NpuFairseqDropout(torch.nn.Dropout):
    """FairseqDropout: it has a name, and can stay on for inference."""

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name
        self.apply_during_inference = False

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        on = self.p > 0 and (self.training or self.apply_during_inference)
        return F.dropout(x, self.p, True, inplace) if on else x

    def make_generation_fast_(
        self,
        name: str,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **_others: Any,
    ) -> None:
        """Fairseq calls this on every module of a model for generation, with settings of all of them."""
        if retain_dropout and (retain_dropout_modules is None or self.module_name in retain_dropout_modules):
            self.apply_during_inference = True

    @classmethod
    @contextmanager
    def enable_dropout_ensemble(cls, model: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """Masks of one forward pass are made together on the chip; here there is nothing to gather."""
        yield model


class NpuCachedDropout(NpuFairseqDropout):
    """The name it had before."""


class NpuPreGenDropout(torch.nn.Dropout):
    """The chip draws the masks of the next step meanwhile; here each is drawn when it is needed."""

    def __init__(self, p: float = 0.5, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name


class NpuDropPath(torch.nn.Module):
    """Stochastic depth: whole samples of the batch become zero, the others grow by as much."""

    def __init__(self, drop_prob: float | None = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if not self.drop_prob or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty((x.shape[0],) + (1,) * (x.dim() - 1)).bernoulli_(keep)
        return x * (mask / keep if keep > 0 else mask)
