"""Bodies of `acl`: tensor descriptions."""

from __future__ import annotations

from acl._bodies._common import raw
from softnpu.base.dtypes import element_size
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import UNKNOWN_RANK, TensorDesc, check_dims, check_ranges
from softnpu.runtime.process import process

_MAX_RANGES = 4096


def data_type_size(data_type: int) -> int:
    return element_size(data_type)


def create_tensor_desc(data_type: int, dims: list[int], format: int) -> int:
    return process().handles.add("tensor_desc", TensorDesc(data_type, dims, format))


@raw
def destroy_tensor_desc(desc: int) -> None:
    handles = process().handles
    removed = handles.remove("tensor_desc", desc) if desc else None
    for follower in removed.followers if removed is not None else ():
        handles.discard(follower)


def get_tensor_desc_type(desc: TensorDesc) -> int:
    return desc.data_type


def get_tensor_desc_format(desc: TensorDesc) -> int:
    return desc.format


def get_tensor_desc_size(desc: TensorDesc) -> int:
    return desc.bytes()


def get_tensor_desc_element_count(desc: TensorDesc) -> int:
    return desc.elements()


def get_tensor_desc_num_dims(desc: TensorDesc) -> int:
    return UNKNOWN_RANK if desc.unknown_rank else len(desc.dims)


def get_tensor_desc_dim(desc: TensorDesc, index: int) -> int:
    return desc.dim(index)


def get_tensor_desc_dim_v2(desc: TensorDesc, index: int) -> int:
    return desc.dim(index)


def get_tensor_desc_dim_range(desc: TensorDesc, index: int, dim_range_num: int) -> list[int]:
    if not 2 <= dim_range_num <= _MAX_RANGES:
        raise NpuError(codes.INVALID_PARAM, f"dim_range_num is {dim_range_num}", "pass 2")
    if index >= len(desc.shape_range):
        raise NpuError(
            codes.INVALID_PARAM, f"no shape range is set for dim {index}", "call set_tensor_shape_range first"
        )
    return list(desc.shape_range[index])


def get_tensor_desc_name(desc: TensorDesc) -> str:
    return desc.name


def set_tensor_desc_name(desc: TensorDesc, name: str) -> None:
    desc.name = name


def get_tensor_desc_address(desc: TensorDesc) -> int:
    return desc.address


@raw
def get_tensor_desc_by_index(desc: int, index: int) -> int:
    head: TensorDesc = process().handles.get("tensor_desc", desc)
    listed = [desc, *head.followers]
    if index >= len(listed):
        raise NpuError(
            codes.INVALID_PARAM, f"index {index} is outside a list of {len(listed)} descriptions", "count from 0"
        )
    return listed[index]


def set_tensor_storage_format(desc: TensorDesc, format: int) -> None:
    desc.storage_format = format


@raw
def set_tensor_format(desc: int, format: int) -> None:
    if desc:  # a null description is answered with success by the binding, here alone
        set_tensor_storage_format(process().handles.get("tensor_desc", desc), format)


def set_tensor_origin_format(desc: TensorDesc, format: int) -> None:
    desc.format = format


def set_tensor_storage_shape(desc: TensorDesc, dims: list[int]) -> None:
    check_dims(dims)
    desc.storage_dims = dims


def set_tensor_shape(desc: TensorDesc, dims: list[int]) -> None:
    set_tensor_storage_shape(desc, dims)


def set_tensor_origin_shape(desc: TensorDesc, dims: list[int]) -> None:
    check_dims(dims)
    desc.dims = dims


def set_tensor_shape_range(desc: TensorDesc, ranges: list[list[int]]) -> None:
    if not desc.unknown_rank and len(ranges) != len(desc.dims):
        raise NpuError(
            codes.INVALID_PARAM, f"{len(ranges)} ranges were given for {len(desc.dims)} dims", "give one pair per dim"
        )
    desc.shape_range = check_ranges(ranges, "shape range")


def set_tensor_value_range(desc: TensorDesc, ranges: list[list[int]]) -> None:
    desc.value_range = check_ranges(ranges, "value range")


def set_tensor_dynamic_input(desc: TensorDesc, name: str) -> None:
    desc.dynamic_input = name


def set_tensor_const(desc: TensorDesc, data: int, size: int) -> None:
    if data == 0 or size == 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the constant has address {data:#x} and size {size}",
            "pass host memory with at least one byte",
        )
    desc.constant = process().memory.read(data, size)


def set_tensor_place_ment(desc: TensorDesc, mem_type: int) -> None:
    if mem_type not in (0, 1, 2):
        raise NpuError(codes.INVALID_PARAM, f"memory type {mem_type} is not known", "use aclMemType 0, 1 or 2")
    desc.placement = mem_type
