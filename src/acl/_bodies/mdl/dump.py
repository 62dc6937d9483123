"""Bodies of `acl.mdl`: dump control, and the description of an operator that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import TensorDesc
from softnpu.base.watch import Seen
from softnpu.executor.instrument import failed_node
from softnpu.observe import dump
from softnpu.runtime.init_config import check_dump, read_json
from softnpu.runtime.process import Process, process

_MAX_NAME = 4096


def init_dump() -> None:
    owner = process()
    owner.need_start()
    control = owner.part(dump.DumpControl)
    if control.started:
        raise NpuError(
            codes.REPEAT_INITIALIZE, "acl.mdl.init_dump was called already", "call acl.mdl.finalize_dump first"
        )
    control.started = True


def _need_control() -> Process:
    owner = process()
    owner.need_start()
    if not owner.part(dump.DumpControl).started:
        raise NpuError(codes.DUMP_NOT_RUN, "acl.mdl.init_dump was not called", "call acl.mdl.init_dump first")
    return owner


def set_dump(config_path: str | None) -> None:
    owner = _need_control()
    if not config_path:
        raise NpuError(
            codes.INVALID_PARAM, "no configuration file was given", 'pass the path of a JSON file with "dump"'
        )
    try:
        content = read_json(config_path)
    except NpuError as error:
        if error.code == codes.PARSE_FILE:
            raise NpuError(codes.INVALID_DUMP_CONFIG, error.text, error.remedy) from error
        raise
    dump.configure(owner, check_dump(content.get("dump", {})))


def finalize_dump() -> None:
    owner = _need_control()
    dump.stop(owner)
    owner.part(dump.DumpControl).started = False


def dump_reg_callback(fn: Callable[[dict[str, Any]], object], flag: int) -> None:
    if flag != 0:
        raise NpuError(codes.INVALID_PARAM, f"the flag of a dump callback is {flag}", "pass 0")
    dump.set_callback(process(), fn, flag)


def dump_unreg_callback() -> None:
    dump.set_callback(process(), None)


# ---- operators that failed -------------------------------------------------------------------------------------------


def create_and_get_op_desc(
    device_id: int, stream_id: int, task_id: int, op_name_len: int
) -> tuple[str, int, int, int, int]:
    if not 0 < op_name_len <= _MAX_NAME:
        raise NpuError(codes.INVALID_PARAM, f"op_name_len is {op_name_len}", f"pass 1 to {_MAX_NAME}, e.g. 256")
    owner = process()
    owner.need_start()
    node = failed_node(owner, device_id, stream_id, task_id)
    if node is None:
        raise NpuError(
            codes.FAILURE,
            f"no failed operator is known for device {device_id}, stream {stream_id}, task {task_id}",
            "call it from the exception callback, with the numbers that the exception info gives",
        )
    if len(node.name) >= op_name_len:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the operator's name has {len(node.name)} characters, op_name_len is {op_name_len}",
            f"pass at least {len(node.name) + 1}",
        )
    inputs, outputs = _described(node.inputs), _described(node.outputs)
    return node.name, inputs, len(node.inputs), outputs, len(node.outputs)


def _described(tensors: tuple[Seen, ...]) -> int:
    """A list of descriptions, as the handle of its first."""
    handles = process().handles
    descs = [TensorDesc(tensor.dtype, list(tensor.shape), tensor.format, address=tensor.address) for tensor in tensors]
    added = [handles.add("tensor_desc", desc) for desc in descs]
    if not added:
        return 0
    descs[0].followers = added[1:]
    return added[0]
