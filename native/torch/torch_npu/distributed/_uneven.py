"""Collectives whose parts differ in size from rank to rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp, ReduceScatterOptions

from torch_npu.distributed._groups import hccl_of


def _finished(work: Any, async_op: bool) -> Any:
    """The work, or nothing once it is over."""
    if async_op:
        return work
    work.wait()
    return None


def reduce_scatter_tensor_uneven(
    output: Tensor,
    input: Tensor,
    input_split_sizes: Sequence[int] | None = None,
    op: Any = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Rank r gets the reduced rows of its split of `input`; without split sizes all have as many rows."""
    options = ReduceScatterOptions()
    options.reduceOp = op
    work = hccl_of(group)._reduce_scatter_base_uneven(output, input, list(input_split_sizes or ()), options)
    return _finished(work, async_op)


def all_gather_into_tensor_uneven(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """`output` is the inputs of all ranks one after another; rank r has as many rows as its split size."""
    work = hccl_of(group)._allgather_base_uneven(output, input, list(output_split_sizes or ()))
    return _finished(work, async_op)
