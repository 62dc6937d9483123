"""Capture and replay of work on npu: `NPUGraph`, `graph`, `make_graphed_callables`, task groups (`torch_npu._graphs`)."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._graphs.callables import make
from torch_npu._graphs.capture import (
    NPUGraph,
    Pool,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)
from torch_npu._graphs.task_groups import (
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
)

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]

for _public in (NPUGraph, graph):
    _public.__module__ = __name__  # the name that programs know


def super_kernel_scope_begin(scope: str, options: Any = None, stream: torch.Stream | None = None) -> None:
    """Marks kernels to be fused on a device; there is nothing to fuse here, so the marks are not kept."""
    del scope, options, stream


def super_kernel_scope_end(scope: str, stream: torch.Stream | None = None) -> None:
    """The other end of `super_kernel_scope_begin`."""
    del scope, stream


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Callables whose forward and backward are captured graphs, to be used in a training loop like the originals."""
    return make(callables, sample_args, num_warmup_iters, allow_unused_input, pool)
