"""What the examples share: checking return codes, a device for a while, datasets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import acl

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2


def check(answer):
    """Split `(value, ret)` or `ret`, and stop with what pyACL says when a call failed."""
    value, ret = answer if isinstance(answer, tuple) else (None, answer)
    if ret:
        sys.exit(f"a call failed with {ret}: {acl.get_recent_err_msg()}")
    return value


@contextmanager
def device(number: int = 0) -> Iterator[int]:
    """pyACL initialised, a device set, a context and everything given back at the end."""
    check(acl.init())
    check(acl.rt.set_device(number))
    context = check(acl.rt.create_context(number))
    yield context
    check(acl.rt.destroy_context(context))
    check(acl.rt.reset_device(number))
    check(acl.finalize())


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for models, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="softnpu-example-") as name:
        yield Path(name)


class Dataset:
    """An aclmdlDataset with device memory behind each of its buffers."""

    def __init__(self, sizes: list[int]) -> None:
        self.handle = acl.mdl.create_dataset()
        self.buffers: list[tuple[int, int, int]] = []  # address, bytes, aclDataBuffer
        for size in sizes:
            address = check(acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST))
            data = acl.create_data_buffer(address, size)
            check(acl.mdl.add_dataset_buffer(self.handle, data))
            self.buffers.append((address, size, data))

    def write(self, index: int, array: np.ndarray) -> None:
        """Copy an array to the device."""
        address, size, _ = self.buffers[index]
        data = array.tobytes()
        check(acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))

    def read(self, index: int, shape, dtype=np.float32) -> np.ndarray:
        """Copy an array from the device."""
        array = np.empty(shape, dtype)
        pointer, array = acl.util.numpy_contiguous_to_ptr(array)
        address = self.buffers[index][0]
        check(acl.rt.memcpy(pointer, array.nbytes, address, array.nbytes, ACL_MEMCPY_DEVICE_TO_HOST))
        return array

    def destroy(self) -> None:
        """Give everything back."""
        for address, _, data in self.buffers:
            check(acl.destroy_data_buffer(data))
            check(acl.rt.free(address))
        check(acl.mdl.destroy_dataset(self.handle))


class Model:
    """A loaded model with its description."""

    def __init__(self, path: Path) -> None:
        self.id = check(acl.mdl.load_from_file(str(path)))
        self.desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(self.desc, self.id))

    def inputs(self) -> Dataset:
        """Buffers for every input."""
        count = acl.mdl.get_num_inputs(self.desc)
        return Dataset([acl.mdl.get_input_size_by_index(self.desc, index) for index in range(count)])

    def outputs(self) -> Dataset:
        """Buffers for every output."""
        count = acl.mdl.get_num_outputs(self.desc)
        return Dataset([acl.mdl.get_output_size_by_index(self.desc, index) for index in range(count)])

    def unload(self) -> None:
        """Give everything back."""
        check(acl.mdl.unload(self.id))
        check(acl.mdl.destroy_desc(self.desc))


def compare(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-4) -> None:
    """Print how far two results are from each other, and stop when that is too far."""
    error = float(np.abs(ours - theirs).max())
    print(f"{what}: largest difference from onnxruntime {error:.2g}")
    if not error <= tolerance * max(1e-2, float(np.abs(theirs).max())):
        sys.exit(f"{what}: the difference is larger than {tolerance}")
