"""torch_npu.distributed: the process group of npu tensors, its uneven collectives, and what `torch.distributed` gets from here.

`_gloo.py` connects the processes · `_uneven.py` collectives whose parts differ in size · `_groups.py` names, repair of groups ·
`_rendezvous.py` what goes wrong when processes look for each other · `run.py` the command `torch_npu_run`
"""

from __future__ import annotations

from torch_npu._C._distributed_c10d import ProcessGroupHCCL
from torch_npu.distributed._groups import is_hccl_available, reinit_process_group
from torch_npu.distributed._uneven import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven

__all__ = [
    "ProcessGroupHCCL",
    "all_gather_into_tensor_uneven",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]
