"""Runs of models as programs ask for them: datasets in, datasets out, in the caller's thread or on a stream."""

from __future__ import annotations

from softnpu.base.dtypes import DType
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.config import ExecConfig
from softnpu.executor.dataset import Dataset
from softnpu.executor.engines.base import Shape
from softnpu.executor.model import Given, Model
from softnpu.graph.inout import SHAPE_INPUT
from softnpu.graph.om import Om
from softnpu.runtime.process import Process
from softnpu.runtime.streams.stream import Stream

_TASK = "MODEL_EXECUTE"


def sizes(source: Om) -> tuple[int, int]:
    """Work and weight memory that a model needs."""
    info = source.info()
    if any(tensor.ranges for tensor in info.inputs):
        raise NpuError(
            codes.API_NOT_SUPPORT,
            "a model with a shape range has no fixed memory size",
            "load it with acl.mdl.load_from_file, which allocates for itself",
        )
    return info.memory_size, info.weight_size


def _given(process: Process, dataset: Dataset, number: int = 0) -> Given:
    handles = process.handles
    buffers: list[DataBuffer] = [handles.get("data_buffer", handle) for handle in dataset.buffers]
    descs: dict[int, TensorDesc] = {
        index: handles.get("tensor_desc", handle) for index, handle in dataset.descs.items()
    }
    return Given(buffers, descs, dataset.gears.get(number))


def execute(process: Process, model: Model, inputs: Dataset, outputs: Dataset) -> None:
    """Run a model now."""
    process.current()
    ready = model.prepare(_given(process, inputs, model.id), _given(process, outputs))
    _finish(process, model, outputs, model.run(ready))


def execute_async(process: Process, model: Model, inputs: Dataset, outputs: Dataset, stream: Stream) -> None:
    """Queue a run; buffers are checked now."""
    _refuse_null(process, model, outputs)
    ready = model.prepare(_given(process, inputs, model.id), _given(process, outputs))
    stream.submit(lambda: _finish(process, model, outputs, model.run(ready)), _TASK, detail={"model_id": model.id})


def execute_v2(
    process: Process, model: Model, inputs: Dataset, outputs: Dataset, stream: Stream, config: ExecConfig
) -> None:
    """Run a model on a stream and wait for it, at most as long as the configuration says."""
    ready = model.prepare(_given(process, inputs, model.id), _given(process, outputs))
    stream.submit(
        lambda: _finish(process, model, outputs, model.run(ready)),
        _TASK,
        inline=config.timeout is None,
        detail={"model_id": model.id},
    )
    stream.synchronize(config.timeout)


def _refuse_null(process: Process, model: Model, outputs: Dataset) -> None:
    for index, handle in enumerate(outputs.buffers):
        buffer: DataBuffer = process.handles.get("data_buffer", handle)
        if (
            not buffer.address
            and (not buffer.size and index < len(model.info.outputs))
            and model.info.outputs[index].dims.count(0) == 0
        ):
            raise NpuError(
                codes.INVALID_PARAM,
                f"output {index} has no memory; only a synchronous run can allocate it",
                "allocate it with acl.rt.malloc, or use acl.mdl.execute",
            )


def _finish(process: Process, model: Model, outputs: Dataset, dims: list[Shape]) -> None:
    """Leave the real dims of outputs in the dataset, where the model has open shapes or a description was attached."""
    if not (model.ranged or model.open_outputs) and not outputs.descs:
        return
    for index, (info, shape) in enumerate(zip(model.info.outputs, dims, strict=True)):
        known = outputs.descs.get(index)
        if not (model.ranged or model.open_outputs) and known is None:
            continue
        fresh = TensorDesc(info.dtype, list(shape), info.format, info.name)
        if known is not None and (desc := process.handles.peek("tensor_desc", known)) is not None:
            desc.data_type, desc.dims, desc.format = fresh.data_type, fresh.dims, fresh.format
        else:
            outputs.descs[index] = process.handles.add("tensor_desc", fresh)


# ---- gears -----------------------------------------------------------------------------------------------------------


def set_gear(process: Process, model: Model, dataset: Dataset, index: int, kind: str, values: list[int]) -> None:
    """Choose a gear for the next runs with this dataset, and write it into the shape input's memory."""
    if 0 in values:
        raise NpuError(
            codes.INVALID_PARAM, f"a size of {values} is not possible", "use one of the sizes the model was built for"
        )
    if model.info.gear_kind != kind:
        choices = {"batch": "batch sizes", "hw": "resolutions", "dims": "dims"}[kind]
        raise NpuError(
            codes.INVALID_PARAM if not model.info.gears else codes.GE_DYNAMIC_BATCH_SIZE_INVALID,
            f"model {model.id} was not built for several {choices}",
            f"convert it with --dynamic_{ {'batch': 'batch_size', 'hw': 'image_size', 'dims': 'dims'}[kind] }",
        )
    _choose(process, model, dataset, index, values)


def set_dims(process: Process, model: Model, dataset: Dataset, index: int, dims: list[int]) -> None:
    """Choose the gear of these dims, which are those of all inputs one behind the other (only the open ones are tolerated)."""
    info = model.info
    if info.gear_kind != "dims":
        raise NpuError(
            codes.INVALID_PARAM, f"model {model.id} was not built for several dims", "convert it with --dynamic_dims"
        )
    if dims in info.gear_inputs:
        _choose(process, model, dataset, index, info.gears[info.gear_inputs.index(dims)])
    elif dims in info.gears:
        _choose(process, model, dataset, index, dims)
    else:
        raise NpuError(
            codes.GE_DYNAMIC_BATCH_SIZE_INVALID,
            f"the dims {dims} are none of the gears {info.gear_inputs}",
            "use one of the gears the model was built for (acl.mdl.get_input_dynamic_dims lists them)",
        )


def _choose(process: Process, model: Model, dataset: Dataset, index: int, values: list[int]) -> None:
    info = model.info
    if index >= len(info.inputs) or info.inputs[index].name != SHAPE_INPUT:
        raise NpuError(
            codes.INVALID_PARAM,
            f"input {index} is not the one that takes the size",
            f"find it with acl.mdl.get_input_index_by_name(desc, '{SHAPE_INPUT}')",
        )
    dataset.check(index)
    if values not in info.gears:
        raise NpuError(
            codes.GE_DYNAMIC_BATCH_SIZE_INVALID,
            f"{values} is none of the gears {info.gears} that the model was built for",
            "use one of them, or convert the model again",
        )
    buffer: DataBuffer = process.handles.get("data_buffer", dataset.buffers[index])
    if not buffer.address:
        raise NpuError(
            codes.GE_DYNAMIC_INPUT_ADDR_INVALID,
            f"input {index} ({SHAPE_INPUT}) has no memory",
            "allocate acl.mdl.get_input_size_by_index bytes for it",
        )
    need = 4 * len(values)
    if buffer.size < need:
        raise NpuError(
            codes.GE_DYNAMIC_INPUT_LENGTH_INVALID,
            f"input {index} ({SHAPE_INPUT}) needs {need} bytes, its buffer has {buffer.size}",
            "allocate acl.mdl.get_input_size_by_index bytes for it",
        )
    width = 8 if buffer.size >= 8 * len(values) and model.info.inputs[index].dtype == DType.INT64 else 4
    process.memory.store(buffer.address, b"".join(value.to_bytes(width, "little") for value in values))
    gear = info.gears.index(values)
    dataset.gears[model.id] = gear
    model.gear = gear
