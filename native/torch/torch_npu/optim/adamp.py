"""AdamP over buffers: the step of Adam without its part along the weights, where a weight's scale does not matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_npu.optim.adam import adam_moments
from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_betas, check_range
from torch_npu.optim.bucket import Run

_FLOAT_BYTES = 4


def _sum(values: Tensor, lengths: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", lengths=lengths)


def _wide(values: Tensor) -> Tensor:
    """Sums of halves would lose the angle."""
    return values if values.element_size() >= _FLOAT_BYTES else values.float()


def _cosine(dot: Tensor, square: Tensor, other: Tensor, eps: float) -> Tensor:
    """The angle's cosine without its sign, as torch.nn.functional.cosine_similarity bounds it."""
    return dot.abs() / (square.sqrt().clamp(min=eps) * other.sqrt().clamp(min=eps))


class _Rows:
    """The rows of all parameters of a run, as lengths of stretches of its buffer; a vector is one row that is never projected."""

    def __init__(self, run: Run) -> None:
        matrices = [len(shape) > 1 and shape.numel() > 0 for shape in run.shapes]
        counts = [shape[0] if is_matrix else 1 for shape, is_matrix in zip(run.shapes, matrices, strict=True)]
        widths = [shape.numel() // count for shape, count in zip(run.shapes, counts, strict=True)]
        device = run.param.device
        self.per_param = torch.tensor(counts, device=device)
        self.lengths = torch.tensor(widths, device=device).repeat_interleave(self.per_param)
        self.is_matrix = torch.tensor(matrices, device=device)
        self.bounds = [
            torch.tensor(sizes, device=device).sqrt_() for sizes in (_real(widths), _real(run.lengths.tolist()))
        ]

    @cached_property
    def total(self) -> int:
        """Rows in all."""
        return int(self.per_param.sum())

    def spread(self, per_param: Tensor) -> Tensor:
        """One value per parameter, repeated over its rows."""
        return per_param.repeat_interleave(self.per_param, output_size=self.total)


def _real(sizes: list[int]) -> list[float]:
    return [float(max(size, 1)) for size in sizes]


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """AdamP: rows of a weight are looked at first, then the weight as a whole; where the gradient stands nearly at a right angle to
    it (below `delta`), the step loses its part along the weight and the decay is multiplied by `wd_ratio`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "delta": delta}
        super().__init__(params, {**options, "wd_ratio": wd_ratio, "nesterov": nesterov})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _update(self, group: Options, run: Run) -> None:
        beta1, beta2 = group["betas"]
        first, second = adam_moments(run, run.grad, beta1, beta2)
        divisor = (second.sqrt() / math.sqrt(1 - beta2**run.step)).add_(group["eps"])
        step = (torch.lerp(first, run.grad, 1 - beta1) if group["nesterov"] else first) / divisor
        projected = self._project(group, run, step)
        rate = float(group["lr"])
        if group["weight_decay"] > 0:
            share = torch.where(projected, group["wd_ratio"], 1.0).to(run.param.dtype)
            run.param.mul_(run.spread(1 - rate * group["weight_decay"] * share))
        run.param.add_(step, alpha=-(rate / (1 - beta1**run.step)))

    def _project(self, group: Options, run: Run, step: Tensor) -> Tensor:
        """Take the part along the weight out of the step; which parameters that concerned."""
        if "rows" not in run.kept:
            run.kept["rows"] = _Rows(run)
        rows: _Rows = run.kept["rows"]
        weight, grad, ahead = _wide(run.param), _wide(run.grad), _wide(step)
        sums = [
            _sum(product, rows.lengths) for product in (weight * grad, weight.square(), grad.square(), weight * ahead)
        ]
        whole = [_sum(row_sums, rows.per_param) for row_sums in sums]
        eps, delta = group["eps"], group["delta"]
        nearest = torch.segment_reduce(_cosine(sums[0], sums[1], sums[2], eps), "max", lengths=rows.per_param)
        by_row = rows.is_matrix & (nearest < delta / rows.bounds[0])
        by_whole = rows.is_matrix & ~by_row & (_cosine(whole[0], whole[1], whole[2], eps) < delta / rows.bounds[1])
        projected: Tensor = by_row | by_whole
        if bool(projected.any()):
            along_row, along_whole = (each[3] / (each[1].sqrt() + eps).square() for each in (sums, whole))
            along = torch.where(rows.spread(by_row), along_row, rows.spread(torch.where(by_whole, along_whole, 0.0)))
            step.sub_(weight * along.repeat_interleave(rows.lengths, output_size=step.numel()))
        return projected
