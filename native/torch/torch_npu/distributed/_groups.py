"""Groups of `torch.distributed` and the ProcessGroupHCCL in them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from torch_npu._C._distributed_c10d import ProcessGroupHCCL
from torch_npu._errors import ErrCode, dist_error
from torch_npu.distributed._gloo import connect


def is_hccl_available() -> bool:
    """Whether `init_process_group("hccl")` works: always, once torch_npu is there."""
    return True


def create(group: Any, asked: Any) -> ProcessGroupHCCL:
    """What `torch.distributed` calls for the backends hccl and lccl: its own options and the user's `pg_options`."""
    options = ProcessGroupHCCL.Options()
    if asked is not None:
        if not isinstance(asked, ProcessGroupHCCL.Options):
            raise TypeError(
                f"pg_options of hccl must be ProcessGroupHCCL.Options, not {type(asked).__name__}"
                + dist_error(ErrCode.TYPE)
            )
        options.is_high_priority_stream = asked.is_high_priority_stream
        options.hccl_config = asked.hccl_config
    options.op_timeout = min(group.timeout, asked.op_timeout) if asked is not None else group.timeout
    options.group_id = group.group_id
    options.global_ranks_in_group = group.global_ranks_in_group
    return ProcessGroupHCCL(group.store, group.group_rank, group.group_size, options)


def hccl_of(group: dist.ProcessGroup | None) -> ProcessGroupHCCL:
    """The ProcessGroupHCCL of a group, below the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL too."""
    whole: Any = group if group is not None else dist.group.WORLD
    if whole is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    backend = whole._get_backend(torch.device("npu"))
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, ProcessGroupHCCL):
        raise ValueError(
            f"the group's backend for npu is {backend.name()}, not hccl: make it with backend='hccl'"
            + dist_error(ErrCode.PARAM)
        )
    return backend


def repair(backend: ProcessGroupHCCL) -> None:
    """New connections for a group, on every rank of it."""
    backend.abort()
    store = backend._store()
    number = store.add(f"repairs/{backend.rank()}", 1)  # as often on each rank, hence the same number on all
    connect(backend, PrefixStore(f"repair{number}", store), backend.options.op_timeout)


def reinit_process_group(group: dist.ProcessGroup | None = None, rebuild_link: bool = True) -> None:
    """Repair a group after an error: every rank of it must call this. Without `rebuild_link` connections stay as they are."""
    backend = hccl_of(group)
    if rebuild_link:
        repair(backend)
