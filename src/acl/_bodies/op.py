"""Bodies of `acl.op`: single operators, their attributes, shape inference, custom kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from acl._arguments import converter
from acl._bodies._common import raw, refuses
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.single_op import infer_shape as shapes
from softnpu.executor.single_op.kernels import Kernel, KernelDesc, Selector
from softnpu.executor.single_op.match import OpAttr, describe
from softnpu.executor.single_op.table import OpHandle, SingleOps, table
from softnpu.graph import container
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_HEAD_BYTES = container.HEADER_BYTES
_MAX_ARGUMENTS = 1 << 20
_MAX_WORKSPACES = 4096


def _ops() -> SingleOps:
    return table(process())


def _descs(handles: list[int]) -> list[TensorDesc]:
    owner = process().handles
    return [owner.get("tensor_desc", handle) for handle in handles]


def _buffers(handles: list[int]) -> list[DataBuffer]:
    owner = process().handles
    return [owner.get("data_buffer", handle) for handle in handles]


# ---- models and execution --------------------------------------------------------------------------------------------


def set_model_dir(dir: str) -> None:
    _ops().set_folder(dir)


def _is_model(head: bytes, size: int) -> bool:
    try:
        container.read_header(memoryview(head), size)
    except NpuError:
        return False
    return True


def load(model_ptr: int, model_size: int) -> None:
    if not model_ptr or not model_size:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the model has address {model_ptr:#x} and {model_size} bytes",
            "pass the model's bytes",
        )
    memory = process().memory
    head = memory.read(model_ptr, min(model_size, _HEAD_BYTES))
    whole = _is_model(head, model_size)  # what is no model need not be copied to be refused
    _ops().load(memory.read(model_ptr, model_size) if whole else head)


def execute_v2(
    op_type: str,
    in_desc: list[int],
    inputs: list[int],
    out_desc: list[int],
    outputs: list[int],
    attr: OpAttr | None,
    stream: Stream,
) -> None:
    described_inputs = (_descs(in_desc), _buffers(inputs))
    described_outputs = (_descs(out_desc), _buffers(outputs))
    _ops().execute(process(), op_type, described_inputs, described_outputs, attr, stream)


def execute(
    op_type: str,
    in_desc: list[int],
    inputs: list[int],
    out_desc: list[int],
    outputs: list[int],
    attr: OpAttr | None,
    stream: Stream,
) -> None:
    execute_v2(op_type, in_desc, inputs, out_desc, outputs, attr, stream)


def create_handle(op_type: str, in_desc: list[int], out_desc: list[int], attr: OpAttr | None) -> int:
    owner = process()
    prepared = _ops().prepare(op_type, _descs(in_desc), _descs(out_desc), attr, owner.memory.strict)
    return owner.handles.add("op_handle", prepared)


def execute_with_handle(handle: OpHandle, inputs: list[int], outputs: list[int], stream: Stream) -> None:
    _ops().execute_handle(process(), handle, _buffers(inputs), _buffers(outputs), stream)


@raw
def destroy_handle(handle: int) -> None:
    if handle:
        process().handles.remove("op_handle", handle)


# ---- cast ------------------------------------------------------------------------------------------------------------


def _refuse_truncate(truncate: int) -> None:
    if truncate:
        raise NpuError(codes.INVALID_PARAM, f"truncate is {truncate}", "only 0 is possible")


def cast(
    src_desc: TensorDesc, src_buf: DataBuffer, dst_desc: TensorDesc, dst_buf: DataBuffer, truncate: int, stream: Stream
) -> None:
    _refuse_truncate(truncate)
    _ops().execute(process(), "Cast", ([src_desc], [src_buf]), ([dst_desc], [dst_buf]), None, stream)


def create_handle_for_cast(src_desc: TensorDesc, dst_desc: TensorDesc, truncate: int) -> int:
    _refuse_truncate(truncate)
    owner = process()
    return owner.handles.add("op_handle", _ops().prepare("Cast", [src_desc], [dst_desc], None, owner.memory.strict))


# ---- attributes ------------------------------------------------------------------------------------------------------


def create_attr() -> int:
    return process().handles.add("op_attr", OpAttr())


@raw
def destroy_attr(attr: int) -> None:
    if attr:
        process().handles.remove("op_attr", attr)


def set_attr_bool(attr: OpAttr, name: str, value: int) -> None:
    attr.set(name, bool(value))


def set_attr_int(attr: OpAttr, name: str, value: int) -> None:
    attr.set(name, value)


def set_attr_float(attr: OpAttr, name: str, value: float) -> None:
    attr.set(name, value)


def set_attr_string(attr: OpAttr, name: str, value: str) -> None:
    attr.set(name, value)


@raw
def set_attr_data_type(attr: int, name: str, data_type: int) -> int:
    process().handles.get("op_attr", attr).set(name, data_type)
    return attr


def _listed(values: Any, kind: str, name: str) -> list[Any]:
    """A list argument, as the binding takes those it calls objects."""
    converted: list[Any] = converter(f"list[{kind}]", 3)(values)
    if any(isinstance(value, str) for value in converted):
        raise Raise(TypeError(f"{name} args parse failed"))
    return converted


def set_attr_list_bool(attr: OpAttr, name: str, values: Any) -> None:
    attr.set(name, [bool(value) for value in _listed(values, "i64", "acl.op.set_attr_list_bool")])


def set_attr_list_int(attr: OpAttr, name: str, values: Any) -> None:
    attr.set(name, _listed(values, "i64", "acl.op.set_attr_list_int"))


def set_attr_list_float(attr: OpAttr, name: str, values: Any) -> None:
    attr.set(name, _listed(values, "f32", "acl.op.set_attr_list_float"))


def set_attr_list_string(attr: OpAttr, name: str, values: list[str]) -> None:
    attr.set(name, values)


def set_attr_list_list_int(attr: OpAttr, name: str, values: list[list[int]]) -> None:
    attr.set(name, values)


@raw
def set_attr_list_data_type(attr: int, name: str, values: list[int]) -> int:
    process().handles.get("op_attr", attr).set(name, values)
    return attr


# ---- shapes ----------------------------------------------------------------------------------------------------------


def infer_shape(
    op_type: str,
    in_desc: list[int],
    in_host_buffers: list[int],
    num_outputs: int,
    out_desc: list[int],
    attr: OpAttr | None,
) -> None:
    process().need_start()
    if num_outputs != len(out_desc):
        raise NpuError(
            codes.INVALID_PARAM,
            f"num_outputs is {num_outputs}, {len(out_desc)} descriptions were given",
            "pass the length of out_desc",
        )
    shapes.infer(process().memory, op_type, (_descs(in_desc), _buffers(in_host_buffers)), _descs(out_desc), attr)


# ---- custom kernels --------------------------------------------------------------------------------------------------


def register_compile_func(op_type: str, fn: Callable[..., object]) -> None:
    _ops().register(op_type, fn)


def unregister_compile_func(op_type: str) -> None:
    _ops().register(op_type, None)


def create_kernel(
    op_type: str, kernel_id: str, kernel_name: str, bin_ptr: int, bin_size: int, engine_type: int, deallocator: int
) -> None:
    if not op_type or not kernel_id:
        raise NpuError(
            codes.INVALID_PARAM, f"operator type {op_type!r} and kernel id {kernel_id!r} must not be empty", "name both"
        )
    if not bin_ptr or bin_size <= 0 or engine_type not in (0, 1, 2) or deallocator not in (0, 1):
        arguments = f"bin_ptr {bin_ptr:#x}, bin_size {bin_size}, engine_type {engine_type}, deallocator {deallocator}"
        raise NpuError(
            codes.INVALID_PARAM,
            f"not possible: {arguments}",
            "pass a binary with its size, an engine of 0 to 2, a deallocator of 0 or 1",
        )
    process().memory.reach(bin_ptr, bin_size, False)
    _ops().kernels.add(op_type, kernel_id, Kernel(kernel_name, bin_size, engine_type))


@raw
def update_params(op_type: str, in_desc: list[int], out_desc: list[int], attr: int) -> None:
    handles = process().handles
    op_attr: OpAttr | None = handles.get("op_attr", attr) if attr else None

    def call(selector: Selector, desc: KernelDesc) -> object:
        handle = handles.add("kernel_desc", desc)
        try:
            return selector(len(in_desc), list(in_desc), len(out_desc), list(out_desc), attr, handle)
        finally:
            handles.discard(handle)

    _ops().kernels.choose(describe(op_type, _descs(in_desc), _descs(out_desc), op_attr), call)


def set_kernel_args(kernel_desc: KernelDesc, kernel_id: str, block_dim: int, args_ptr: int, args_size: int) -> None:
    if not block_dim or (args_size and not args_ptr) or args_size > _MAX_ARGUMENTS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"block_dim is {block_dim}, the arguments have address {args_ptr:#x} and {args_size} bytes",
            "run at least one block, and pass memory for the arguments",
        )
    kernel_desc.arguments = process().memory.read(args_ptr, args_size) if args_size else b""
    kernel_desc.kernel_id, kernel_desc.block_dim = kernel_id, block_dim


def set_kernel_workspace_sizes(kernel_desc: KernelDesc, num: int, sizes_ptr: int) -> None:
    if not 0 <= num <= _MAX_WORKSPACES or (num and not sizes_ptr):
        raise NpuError(
            codes.INVALID_PARAM,
            f"{num} sizes at {sizes_ptr:#x} are not possible",
            "pass an array of 64-bit sizes and its length",
        )
    data = process().memory.read(sizes_ptr, 8 * num) if num else b""
    kernel_desc.workspaces = list(struct.unpack(f"<{num}Q", data))


# ---- cache and dump --------------------------------------------------------------------------------------------------


def set_max_op_queue_num(num: int) -> None:
    _ops().set_limit(num)


def _refuse_dump(type: int) -> None:
    if type != 1:
        raise NpuError(codes.INVALID_PARAM, f"the dump type is {type}", "the only type is 1")
    raise NpuError(
        codes.API_NOT_SUPPORT,
        "arguments of operators are not written to files in this version of softnpu",
        "dump tensors with acl.mdl.init_dump instead",
    )


@refuses
def start_dump_args(type: int, path: str) -> None:
    if not path:
        raise NpuError(codes.INVALID_PARAM, "the path is empty", "pass a folder")
    _refuse_dump(type)


@refuses
def stop_dump_args(type: int) -> None:
    _refuse_dump(type)
