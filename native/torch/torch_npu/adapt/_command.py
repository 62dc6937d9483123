"""OpCommand: a CANN operator by its type, on tensors of npu, run by the engine behind `acl.op.execute`."""

from __future__ import annotations

import json
import threading
from functools import cache
from typing import Any

import torch
from torch import Tensor

from softnpu.base.errors import NpuError
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.model import Given
from softnpu.executor.single_op.match import OpAttr
from softnpu.executor.single_op.table import SingleOps
from torch_npu._errors import ErrCode, ops_error
from torch_npu._runtime.devices import Context, process
from torch_npu.operators.common.arguments import ACL_TYPES

_ND = 2
_KEPT = 20000  # operators that stay ready, as many as acl.op keeps
_codes = {dtype: code for code, dtype in ACL_TYPES.items()}
_lock = threading.Lock()


@cache
def _operators() -> SingleOps:
    """A register of its own: `acl.init` and what a program loads into `acl.op` are not our business."""
    return SingleOps(_KEPT)


@cache
def _context(device: int) -> Context:
    return Context(process().devices[device], default=False)


def _fail(kind: str, message: str, code: ErrCode) -> RuntimeError:
    return RuntimeError(f"OpCommand {kind}: {message}" + ops_error(code))


def _describe(kind: str, tensor: Tensor) -> TensorDesc:
    code = _codes.get(tensor.dtype)
    if code is None:
        raise _fail(kind, f"{tensor.dtype} has no type in ACL; convert the tensor first", ErrCode.TYPE)
    return TensorDesc(code, list(tensor.shape), _ND)


def _buffer(tensor: Tensor) -> DataBuffer:
    return DataBuffer(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class _Arguments:
    """The inputs of a run: described, dense, on the device; constants carry their content in the description."""

    def __init__(self, kind: str, inputs: list[Tensor | None], constants: list[int], device: torch.device) -> None:
        self.descs: list[TensorDesc] = []
        self.tensors: list[Tensor] = []
        for index, tensor in enumerate(inputs):
            if tensor is None:
                raise _fail(kind, f"input {index} is absent; leave optional inputs away from the end", ErrCode.PARAM)
            desc = _describe(kind, tensor)
            if index in constants:
                desc.constant = tensor.contiguous().cpu().numpy().tobytes()
            self.descs.append(desc)
            self.tensors.append(tensor.to(device).contiguous())


def _room(out: Tensor, inputs: list[Tensor]) -> Tensor:
    """Where a result is computed: in place, unless it is strided or lies over an input."""
    shared = any(tensor.untyped_storage().data_ptr() == out.untyped_storage().data_ptr() for tensor in inputs)
    return out if out.is_contiguous() and not shared else torch.empty(out.shape, dtype=out.dtype, device=out.device)


def run(kind: str, inputs: list[Tensor | None], outputs: list[Tensor], attributes: str, constants: list[int]) -> None:
    """Run one operator; the outputs have their sizes and types already."""
    if not outputs or any(output.device.type != "npu" for output in outputs):
        raise _fail(kind, "every operator needs an output, and outputs must be tensors on npu", ErrCode.PARAM)
    if all(output.numel() == 0 for output in outputs):
        return
    device = outputs[0].device
    arguments = _Arguments(kind, inputs, constants, device)
    rooms = [_room(output, arguments.tensors) for output in outputs]
    attr = OpAttr()
    for name, value in json.loads(attributes).items():
        attr.set(name, value)
    try:
        with _lock:
            operator = _operators().find(kind, arguments.descs, [_describe(kind, room) for room in rooms], attr, False)
            model = operator.model(_context(device.index))
        _refuse_open(kind, model)
        taken = Given([_buffer(arguments.tensors[i]) for i in operator.kept], {})
        model.run(model.prepare(taken, Given([_buffer(room) for room in rooms], {})))
    except NpuError as error:
        raise _fail(kind, str(error), ErrCode.ACL) from error
    for out, room in zip(outputs, rooms, strict=True):
        if out is not room:
            out.copy_(room)


def _refuse_open(kind: str, model: Any) -> None:
    if model.open_outputs:
        raise _fail(
            kind, "only the run tells the sizes of its results; use an operator with fixed ones", ErrCode.NOT_SUPPORT
        )
