"""Operators in the log at level info, one line each: the porting guide's get_ascend_op_info.py collects them."""

from __future__ import annotations

from typing import Any

import torch

from softnpu.base.log import INFO, log, no_line
from torch_npu._watch.acl_files import operator_type
from torch_npu._watch.looking import Looking, named_arguments, named_results, short_name, tensors_in

_TYPES = {torch.float32: "DT_FLOAT", torch.float16: "DT_FLOAT16", torch.bfloat16: "DT_BF16", torch.float64: "DT_DOUBLE"}


def _text(tensor: torch.Tensor) -> str:
    kind = _TYPES.get(tensor.dtype, f"DT_{str(tensor.dtype).removeprefix('torch.').upper()}")
    sizes = ",".join(map(str, tensor.shape))
    layout = torch.ops.npu.get_npu_format(tensor) if tensor.device.type == "npu" else 2
    return f"({kind} [{sizes}] format {layout})"


class OpInfo(Looking):
    """Writes a line for each operator that a chip would compile; those of threads other than the first are not seen."""

    def look(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        inputs = [_text(tensor) for _, tensor in tensors_in(named_arguments(func, args, kwargs))]
        outputs = [_text(tensor) for _, tensor in tensors_in(named_results(func, result))]
        text = f"OpType: {operator_type(short_name(func))}, InputDesc: {' '.join(inputs)}, OutputDesc: {' '.join(outputs)}."
        log().write(INFO, f"aclopCompile::aclOp {text}", "ASCENDCL", "aclopCompile", no_line("_op_info.py"))
        return result
