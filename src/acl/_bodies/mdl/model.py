"""Bodies of `acl.mdl`: load, query, unload, execute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acl._bodies._common import raw, refuses
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.executor import run
from softnpu.executor.config import ExecConfig, LoadConfig
from softnpu.executor.dataset import Dataset
from softnpu.executor.models import ModelTable, table
from softnpu.graph.om import Om
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream


def _models() -> ModelTable:
    return table(process())


def _open(path: str) -> Om:
    process().need_start()
    if not path:
        raise NpuError(
            codes.GE_EXEC_MODEL_PATH_INVALID, "the path of the model is empty", "pass the path of an .om file"
        )
    return Om.open(Path(path))


def _in_memory(address: int, size: int) -> Om:
    owner = process()
    owner.need_start()
    if not address or not size:
        raise NpuError(
            codes.INVALID_PARAM, f"the model has address {address:#x} and {size} bytes", "pass the model's bytes"
        )
    return Om.copy_of(lambda count: owner.memory.read(address, count), size)


def load_from_file(path: str) -> int:
    return _models().load(process(), _open(path))


def load_from_mem(ptr: int, size: int) -> int:
    return _models().load(process(), _in_memory(ptr, size))


def load_from_file_with_mem(path: str, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int) -> int:
    return _models().load(process(), _open(path), (work_ptr, work_size), (weight_ptr, weight_size))


def load_from_mem_with_mem(
    model_ptr: int, model_size: int, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int
) -> int:
    source = _in_memory(model_ptr, model_size)
    return _models().load(process(), source, (work_ptr, work_size), (weight_ptr, weight_size))


def query_size(path: str) -> tuple[int, int]:
    return run.sizes(_open(path))


def query_size_from_mem(ptr: int, size: int) -> tuple[int, int]:
    return run.sizes(_in_memory(ptr, size))


def unload(model_id: int) -> None:
    process().current()  # a context that was destroyed is told before the model is touched
    _models().unload(model_id)


# ---- configuration objects -------------------------------------------------------------------------------------------


def create_config_handle() -> int:
    return process().handles.add("model_config", LoadConfig())


@raw
def destroy_config_handle(handle: int) -> None:
    process().handles.remove("model_config", handle)


def set_config_opt(handle: LoadConfig, attr: int, value: Any) -> None:
    try:
        handle.set(attr, value)
    except TypeError:
        raise Raise(TypeError("acl.mdl.set_config_opt args parse failed")) from None


def load_with_config(handle: LoadConfig) -> int:
    kind, path, memory, work, weight = handle.resolve()
    source = _open(path) if kind == "file" else _in_memory(*memory)
    return _models().load(process(), source, work, weight)


def create_exec_config_handle() -> int:
    return process().handles.add("exec_config", ExecConfig())


@raw
def destroy_exec_config_handle(handle: int) -> None:
    process().handles.remove("exec_config", handle)


def set_exec_config_opt(handle: ExecConfig, attr: int, value: Any) -> None:
    try:
        handle.set(attr, value)
    except TypeError:
        raise Raise(TypeError("acl.mdl.set_exec_config_opt args parse failed")) from None


# ---- running ---------------------------------------------------------------------------------------------------------


def execute(model_id: int, input_dataset: Dataset, output_dataset: Dataset) -> None:
    run.execute(process(), _models().get(model_id), input_dataset, output_dataset)


def execute_async(model_id: int, input_dataset: Dataset, output_dataset: Dataset, stream: Stream) -> None:
    run.execute_async(process(), _models().get(model_id), input_dataset, output_dataset, stream)


def execute_v2(
    model_id: int, input_dataset: Dataset, output_dataset: Dataset, stream: Stream, config_handle: ExecConfig
) -> None:
    run.execute_v2(process(), _models().get(model_id), input_dataset, output_dataset, stream, config_handle)


# ---- sizes of the next run -------------------------------------------------------------------------------------------


def set_dynamic_batch_size(model_id: int, dataset: Dataset, index: int, batch: int) -> None:
    run.set_gear(process(), _models().get(model_id), dataset, index, "batch", [batch])


def set_dynamic_hw_size(model_id: int, dataset: Dataset, index: int, height: int, width: int) -> None:
    run.set_gear(process(), _models().get(model_id), dataset, index, "hw", [height, width])


def set_input_dynamic_dims(model_id: int, dataset: Dataset, index: int, dims_dict: dict[str, Any]) -> None:
    count, dims = dims_dict.get("dimCount"), dims_dict.get("dims")
    if (
        not isinstance(count, int)
        or not isinstance(dims, list | tuple)
        or not all(isinstance(dim, int) for dim in dims)
    ):
        raise Raise(ValueError("acl.mdl.set_input_dynamic_dims needs {'name': str, 'dimCount': int, 'dims': [int, …]}"))
    if count != len(dims):
        raise NpuError(
            codes.INVALID_PARAM,
            f"dimCount is {count}, dims has {len(dims)} numbers",
            "give dimCount the length of dims",
        )
    run.set_dims(process(), _models().get(model_id), dataset, index, [int(dim) for dim in dims])


# ---- bundles and queues ----------------------------------------------------------------------------------------------


def _no_bundle(source: Om) -> NpuError:
    return NpuError(
        codes.GE_PARAM_INVALID,
        f"the file holds one model ({source.header.name}) and no bundle of several",
        "load it with acl.mdl.load_from_file; atc writes no bundles",
    )


def _unknown_bundle(number: int) -> NpuError:
    return NpuError(
        codes.INVALID_BUNDLE_MODEL_ID, f"no loaded bundle has the id {number}", "bundles cannot be loaded here"
    )


@refuses
def bundle_load_from_file(path: str) -> int:
    raise _no_bundle(_open(path))


@refuses
def bundle_load_from_mem(ptr: int, size: int) -> int:
    raise _no_bundle(_in_memory(ptr, size))


@refuses
def bundle_get_model_num(bundle_id: int) -> int:
    raise _unknown_bundle(bundle_id)


@refuses
def bundle_get_model_id(bundle_id: int, _index: int) -> int:
    raise _unknown_bundle(bundle_id)


@refuses
def bundle_unload(bundle_id: int) -> None:
    raise _unknown_bundle(bundle_id)
