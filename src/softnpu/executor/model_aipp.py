"""AIPP of a loaded model: what kind an input has, its static parameters, and attaching a set of dynamic ones."""

from __future__ import annotations

from typing import Any

from softnpu.base.dtypes import TensorFormat
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer
from softnpu.executor.aipp import AippSet, Slot, check_attach, write_block
from softnpu.executor.dataset import Dataset
from softnpu.executor.model import PARAMETERS, PICTURE, STATIC, Model
from softnpu.graph.inout import AippEntry
from softnpu.runtime.process import Process

NONE = 0xFFFFFFFF
NHWC = TensorFormat.NHWC
_NO_AIPP = AippEntry(0)


def _entry(model: Model, index: int) -> tuple[str, AippEntry]:
    if index >= len(model.info.inputs):
        raise NpuError(
            codes.INVALID_PARAM,
            f"input {index} does not exist, the model has {len(model.info.inputs)}",
            "see acl.mdl.get_num_inputs; count from 0",
        )
    name = model.info.inputs[index].name
    return name, model.info.run.aipp.get(name, _NO_AIPP)


def kind(model: Model, index: int) -> tuple[int, int]:
    """aclmdlInputAippType of an input, and the index of the parameter input that belongs to it."""
    _, entry = _entry(model, index)
    if entry.type != PICTURE:
        return entry.type, NONE
    return entry.type, _index(model, entry.block)


def _index(model: Model, name: str) -> int:
    return next(index for index, tensor in enumerate(model.info.inputs) if tensor.name == name)


def first_info(model: Model, index: int) -> dict[str, Any]:
    """The parameters of static AIPP."""
    name, entry = _entry(model, index)
    if entry.type != STATIC:
        raise NpuError(
            codes.GE_AIPP_NOT_EXIST,
            f"input {index} ({name}) has no static AIPP",
            "acl.mdl.get_aipp_type tells which inputs have it",
        )
    return dict(entry.info)


def attach(process: Process, model: Model, dataset: Dataset, index: int, parameters: AippSet) -> None:
    """Attach a set to the parameter input of this index."""
    name, entry = _entry(model, index)
    if entry.type != PARAMETERS:
        raise NpuError(
            codes.INVALID_PARAM,
            f"input {index} ({name}) does not take AIPP parameters",
            "find it with acl.mdl.get_input_index_by_name(desc, 'ascend_dynamic_aipp_data')",
        )
    picture = next(entry for entry in model.info.run.aipp.values() if entry.block == name)
    _write(process, model, dataset, index, picture, parameters)


def attach_to_picture(process: Process, model: Model, dataset: Dataset, index: int, parameters: AippSet) -> None:
    """Attach a set to the parameter input that belongs to a picture input."""
    name, entry = _entry(model, index)
    if entry.type != PICTURE:
        raise NpuError(
            codes.FAILURE,
            f"input {index} ({name}) has no dynamic AIPP",
            "acl.mdl.get_aipp_type tells which inputs have it",
        )
    _write(process, model, dataset, _index(model, entry.block), entry, parameters)


def _write(process: Process, model: Model, dataset: Dataset, index: int, entry: AippEntry, parameters: AippSet) -> None:
    check_attach(parameters, _slot(model, entry))
    dataset.check(index)
    block = write_block(parameters)
    buffer: DataBuffer = process.handles.get("data_buffer", dataset.buffers[index])
    name = model.info.inputs[index].name
    if not buffer.address:
        raise NpuError(
            codes.INVALID_PARAM,
            f"input {index} ({name}) has no memory",
            "allocate acl.mdl.get_input_size_by_index bytes for it",
        )
    if buffer.size < len(block):
        raise NpuError(
            codes.GE_DYNAMIC_INPUT_LENGTH_INVALID,
            f"input {index} ({name}) needs {len(block)} bytes, its buffer has {buffer.size}",
            "allocate acl.mdl.get_input_size_by_index bytes for it",
        )
    process.memory.store(buffer.address, block)


def _slot(model: Model, entry: AippEntry) -> Slot:
    shape = entry.shape
    n, c, h, w = (shape[0], shape[3], shape[1], shape[2]) if entry.format == NHWC else shape
    return Slot(entry.max_src_image_size, n, h, w, c, model.context.device.soc.family)
