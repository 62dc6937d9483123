"""Bodies of `acl.mdl`: datasets."""

from __future__ import annotations

from acl._bodies._common import raw
from softnpu.base.tensor import TensorDesc
from softnpu.executor.dataset import Dataset
from softnpu.runtime.process import process


def create_dataset() -> int:
    return process().handles.add("dataset", Dataset())


@raw
def destroy_dataset(dataset: int) -> None:
    handles = process().handles
    for desc in handles.remove("dataset", dataset).descs.values():
        handles.discard(desc)


@raw
def add_dataset_buffer(dataset: int, buffer: int) -> int:
    handles = process().handles
    target: Dataset = handles.get("dataset", dataset)
    handles.get("data_buffer", buffer)
    target.buffers.append(buffer)
    return dataset


def get_dataset_num_buffers(dataset: Dataset) -> int:
    return len(dataset.buffers)


def get_dataset_buffer(dataset: Dataset, index: int) -> int:
    dataset.check(index)
    return dataset.buffers[index]


@raw
def set_dataset_tensor_desc(dataset: int, desc: int, index: int) -> int:
    handles = process().handles
    target: Dataset = handles.get("dataset", dataset)
    target.check(index)
    tensor_desc: TensorDesc | None = handles.get("tensor_desc", desc) if desc else None
    old = target.descs.pop(index, 0)
    if tensor_desc is not None:
        target.descs[index] = handles.add("tensor_desc", tensor_desc.copy())
    handles.discard(old)
    return dataset


def get_dataset_tensor_desc(dataset: Dataset, index: int) -> int:
    dataset.check(index)
    return dataset.descs.get(index, 0)
