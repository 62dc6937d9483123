"""Helpers of the acceptance tests: convert a model, run it as a pyACL program does, ask onnxruntime for the truth."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import acl
from softnpu.base.dtypes import numpy_name
from softnpu.cli import atc
from tests.support import ok

Array = np.ndarray[Any, Any]
SHAPE_INPUT = "ascend_mbatch_shape_data"
TO_DEVICE = 1
_ML_NAMES = {27: "bfloat16", 35: "float8_e5m2", 36: "float8_e4m3fn"}  # types of ACL that NumPy lacks


def convert(model: Path, output: Path, *options: str, framework: int = 5, soc: str = "Ascend910B3") -> Path:
    """Let atc convert a model in this process; returns the .om."""
    words = [f"--model={model}", f"--framework={framework}", f"--output={output}", f"--soc_version={soc}", *options]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = atc.main(words)
    assert code == 0, said.getvalue()
    offline_model = output.with_name(f"{output.name}.om")
    assert offline_model.is_file(), f"atc did not write {offline_model.name}:\n{said.getvalue()}"
    return offline_model


def session(model: Path | bytes) -> Any:
    """A session of onnxruntime that says nothing about the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = str(model) if isinstance(model, Path) else model
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def reference(model: Path | bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """What onnxruntime makes of the original."""
    return [np.asarray(array) for array in session(model).run(None, dict(feeds))]


def assert_same(results: Sequence[Array], wanted: Sequence[Array], tolerance: float = 1e-4) -> None:
    """The same number of tensors, with the same types, shapes and numbers."""
    assert [(array.dtype, array.shape) for array in results] == [(array.dtype, array.shape) for array in wanted]
    for index, (ours, theirs) in enumerate(zip(results, wanted, strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=f"output {index}")


def random(*shape: int, seed: int = 0) -> Array:
    """Numbers between 0 and 1, always the same ones."""
    return np.random.default_rng(seed).random(shape, np.float32)


def package_folder(name: str, line: str) -> Path:
    """The folder of an installed package, which is not imported; skips the test when it is missing."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the models of the package {name} are not here: {line}")
    return Path(spec.submodule_search_locations[0])


@dataclass(frozen=True)
class Tensor:
    """What a model says about one of its inputs or outputs."""

    name: str
    dtype: int
    dims: list[int]
    size: int

    @property
    def numpy(self) -> np.dtype[Any]:
        """Its type in NumPy."""
        if word := numpy_name(self.dtype):
            return np.dtype(word)
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_NAMES[self.dtype]))
        return dtype


class Client:
    """A loaded model, driven through `acl.mdl` as a program does it."""

    def __init__(self, path: Path) -> None:
        self.model: int = ok(acl.mdl.load_from_file(str(path)))
        self.desc: int = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(self.desc, self.model))
        self.inputs = [self._tensor("input", index) for index in range(acl.mdl.get_num_inputs(self.desc))]
        self.outputs = [self._tensor("output", index) for index in range(acl.mdl.get_num_outputs(self.desc))]
        self.geared = any(tensor.name == SHAPE_INPUT for tensor in self.inputs)

    def _tensor(self, word: str, index: int) -> Tensor:
        def ask(question: str) -> Any:
            return getattr(acl.mdl, f"get_{word}_{question}")(self.desc, index)

        return Tensor(ask("name_by_index"), ask("data_type"), ok(ask("dims"))["dims"], ask("size_by_index"))

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        batch: int | None = None,
        hw: tuple[int, int] | None = None,
        dims: Sequence[int] | None = None,
        own_outputs: bool = True,
    ) -> list[Array]:
        """Run once and fetch the outputs; without `own_outputs` the runtime allocates them."""
        with contextlib.ExitStack() as stack:
            inputs = _Dataset(stack)
            for tensor in self.inputs:
                self._feed(inputs, tensor, feeds)
            self._set_gear(inputs.handle, batch, hw, dims)
            outputs = _Dataset(stack)
            for tensor in self.outputs:
                outputs.add(tensor.size if own_outputs else 0)
            ok(acl.mdl.execute(self.model, inputs.handle, outputs.handle))
            return [self._fetch(outputs, index) for index in range(len(self.outputs))]

    def _feed(self, dataset: _Dataset, tensor: Tensor, feeds: Mapping[str, Array]) -> None:
        if tensor.name == SHAPE_INPUT:
            dataset.add(tensor.size)
            return
        array = np.ascontiguousarray(feeds[tensor.name])
        assert array.dtype == tensor.numpy, f"input {tensor.name} is {tensor.numpy}, the test gives {array.dtype}"
        address = dataset.add(array.nbytes)
        if array.nbytes:
            data = array.tobytes()
            ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), TO_DEVICE))
        if -1 in tensor.dims and not self.geared:
            dataset.describe(tensor.dtype, array.shape)

    def _set_gear(
        self, dataset: int, batch: int | None, hw: tuple[int, int] | None, dims: Sequence[int] | None
    ) -> None:
        if not self.geared:
            assert batch is None and hw is None and dims is None, "the model has no gears"
            return
        index = ok(acl.mdl.get_input_index_by_name(self.desc, SHAPE_INPUT))
        if batch is not None:
            ok(acl.mdl.set_dynamic_batch_size(self.model, dataset, index, batch))
        elif hw is not None:
            ok(acl.mdl.set_dynamic_hw_size(self.model, dataset, index, *hw))
        else:
            assert dims is not None, "the model has gears: say which"
            said = {"name": "", "dimCount": len(dims), "dims": list(dims)}
            ok(acl.mdl.set_input_dynamic_dims(self.model, dataset, index, said))

    def _fetch(self, dataset: _Dataset, index: int) -> Array:
        tensor = self.outputs[index]
        shape = dataset.shape(index)
        if shape is None:
            ask = acl.mdl.get_cur_output_dims if self.geared else acl.mdl.get_output_dims
            shape = ok(ask(self.desc, index))["dims"]
        bytes_needed = int(np.prod(shape, dtype=np.int64)) * tensor.numpy.itemsize
        if not bytes_needed:
            return np.zeros(shape, tensor.numpy)
        data = acl.util.ptr_to_bytes(dataset.address(index), bytes_needed)
        return np.frombuffer(data, tensor.numpy).reshape(shape)

    def close(self) -> None:
        """Unload the model."""
        ok(acl.mdl.unload(self.model))
        ok(acl.mdl.destroy_desc(self.desc))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Dataset:
    """A dataset with device memory of its own; the stack gives everything back."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.handle: int = acl.mdl.create_dataset()
        self._buffers: list[int] = []
        stack.callback(self._release)

    def add(self, size: int) -> int:
        """Append a buffer; size 0 leaves the memory to the runtime. Returns the address."""
        address: int = ok(acl.rt.malloc(size, 0)) if size else 0
        buffer = acl.create_data_buffer(address, size)
        self._buffers.append(buffer)
        ok(acl.mdl.add_dataset_buffer(self.handle, buffer))
        return address

    def describe(self, dtype: int, shape: Sequence[int]) -> None:
        """Say the shape of the buffer added last."""
        desc = acl.create_tensor_desc(dtype, list(shape), 2)
        ok(acl.mdl.set_dataset_tensor_desc(self.handle, desc, len(self._buffers) - 1))
        acl.destroy_tensor_desc(desc)

    def shape(self, index: int) -> list[int] | None:
        """The shape that a run left for an output, None where it is fixed."""
        desc = acl.mdl.get_dataset_tensor_desc(self.handle, index)
        if not desc:
            return None
        return [ok(acl.get_tensor_desc_dim_v2(desc, axis)) for axis in range(acl.get_tensor_desc_num_dims(desc))]

    def address(self, index: int) -> int:
        """Where a buffer is now."""
        pointer: int = acl.get_data_buffer_addr(self._buffers[index])
        return pointer

    def _release(self) -> None:
        for index, buffer in enumerate(self._buffers):
            if address := self.address(index):
                ok(acl.rt.free(address))
            ok(acl.destroy_data_buffer(buffer))
        ok(acl.mdl.destroy_dataset(self.handle))


def run_once(om: Path, feeds: Mapping[str, Array], **settings: Any) -> list[Array]:
    """Load a model, run it once, unload it."""
    with Client(om) as client:
        return client.run(feeds, **settings)
