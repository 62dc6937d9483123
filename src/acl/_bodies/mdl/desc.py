"""Bodies of `acl.mdl`: the description of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acl._bodies._common import raw
from softnpu.base.errors import NpuError, codes
from softnpu.executor.description import ModelDesc
from softnpu.executor.models import table
from softnpu.graph.om import Om
from softnpu.runtime.process import process


def create_desc() -> int:
    return process().handles.add("model_desc", ModelDesc())


@raw
def destroy_desc(desc: int) -> None:
    process().handles.remove("model_desc", desc)


def get_desc(desc: ModelDesc, model_id: int) -> None:
    model = table(process()).get(model_id)
    desc.fill(model.info, model.source, model)


def get_desc_from_file(desc: ModelDesc, path: str) -> None:
    source = Om.open(Path(path))
    desc.fill(source.info(), source)


def get_desc_from_mem(desc: ModelDesc, ptr: int, size: int) -> None:
    if not ptr or not size:
        raise NpuError(
            codes.INVALID_PARAM, f"the model has address {ptr:#x} and {size} bytes", "pass the model's bytes"
        )
    memory = process().memory
    source = Om.copy_of(lambda count: memory.read(ptr, count), size)
    desc.fill(source.info(), source)


def get_num_inputs(desc: ModelDesc) -> int:
    return len(desc.need().inputs)


def get_num_outputs(desc: ModelDesc) -> int:
    return len(desc.need().outputs)


def get_input_size_by_index(desc: ModelDesc, index: int) -> int:
    return desc.tensor("input", index).size


def get_output_size_by_index(desc: ModelDesc, index: int) -> int:
    return desc.tensor("output", index).size


def get_input_name_by_index(desc: ModelDesc, index: int) -> str:
    return desc.name("input", index)


def get_output_name_by_index(desc: ModelDesc, index: int) -> str:
    return desc.name("output", index)


def get_input_index_by_name(desc: ModelDesc, name: str) -> int:
    return desc.find("input", name)


def get_output_index_by_name(desc: ModelDesc, name: str) -> int:
    return desc.find("output", name)


def get_input_format(desc: ModelDesc, index: int) -> int:
    return desc.tensor("input", index).format


def get_output_format(desc: ModelDesc, index: int) -> int:
    return desc.tensor("output", index).format


def get_input_data_type(desc: ModelDesc, index: int) -> int:
    return desc.tensor("input", index).dtype


def get_output_data_type(desc: ModelDesc, index: int) -> int:
    return desc.tensor("output", index).dtype


def get_input_dims(desc: ModelDesc, index: int) -> dict[str, Any]:
    return desc.dims("input", index)


def get_input_dims_v2(desc: ModelDesc, index: int) -> dict[str, Any]:
    return desc.input_dims_v2(index)


def get_output_dims(desc: ModelDesc, index: int) -> dict[str, Any]:
    return desc.dims("output", index)


def get_cur_output_dims(desc: ModelDesc, index: int) -> dict[str, Any]:
    return desc.current_output_dims(index)


def get_input_dims_range(desc: ModelDesc, index: int) -> dict[str, Any]:
    return desc.ranges(index)


def get_dynamic_batch(desc: ModelDesc) -> dict[str, Any]:
    return desc.batches()


def get_dynamic_hw(desc: ModelDesc, _index: int) -> dict[str, Any]:  # the index is ignored, as in the binding
    return desc.resolutions()


def get_input_dynamic_gear_count(desc: ModelDesc, index: int) -> int:
    return desc.gear_count(index)


def get_input_dynamic_dims(desc: ModelDesc, index: int, gear_count: int) -> list[dict[str, Any]]:
    return desc.gears(index, gear_count)


def get_tensor_real_name(desc: ModelDesc, name: str) -> str | None:
    return desc.real_name(name)


def get_op_attr(desc: ModelDesc, op_name: str, attr: str) -> str:
    return desc.op_attr(op_name, attr)
