"""From an ONNX file to numbers by way of atc and pyACL, beside the torch of the same process."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import acl
from softnpu.base.dtypes import numpy_name
from softnpu.cli import atc
from tests.support import ok

Array = np.ndarray[Any, Any]
_TO_DEVICE, _TO_HOST = 1, 2


def export(module: torch.nn.Module, inputs: tuple[Any, ...], path: Path, **settings: Any) -> Path:
    """torch.onnx.export with torch's notices about this exporter left out: it is the one that knows symbolic functions."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        warnings.filterwarnings("ignore", "You are using the legacy|The feature will be removed", DeprecationWarning)
        warnings.filterwarnings("ignore", "Constant folding", UserWarning)
        torch.onnx.export(module, inputs, str(path), **{"opset_version": 11, "dynamo": False, **settings})
    return path


def convert(model: Path, *options: str) -> Path:
    """The offline model of an ONNX file."""
    output = model.with_suffix("")
    arguments = [f"--model={model}", "--framework=5", f"--output={output}", "--soc_version=Ascend910B3", *options]
    assert atc.main(arguments) == 0
    return output.with_suffix(".om")


@contextlib.contextmanager
def _session() -> Iterator[None]:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    try:
        yield
    finally:
        acl.rt.reset_device(0)
        acl.finalize()


def _dataset(sizes: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    dataset = acl.mdl.create_dataset()
    rooms = []
    for size in sizes:
        address = ok(acl.rt.malloc(max(size, 1), 0))
        ok(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size)))
        rooms.append((address, size))
    return dataset, rooms


def _dims(desc: int, index: int) -> list[int]:
    return list(ok(acl.mdl.get_cur_output_dims(desc, index))["dims"])


def run(om: Path, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of an offline model, by acl.mdl."""
    with _session():
        model = ok(acl.mdl.load_from_file(str(om)))
        desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(desc, model))
        count = acl.mdl.get_num_inputs(desc)
        assert count == len(inputs), [ok(acl.mdl.get_input_name_by_index(desc, i)) for i in range(count)]
        inputs_set, rooms = _dataset([acl.mdl.get_input_size_by_index(desc, i) for i in range(count)])
        for array, (address, size) in zip(inputs, rooms, strict=True):
            data = np.ascontiguousarray(array)
            assert data.nbytes == size, (data.nbytes, size)
            ok(acl.rt.memcpy(address, size, int(data.ctypes.data), size, _TO_DEVICE))
        outputs = acl.mdl.get_num_outputs(desc)
        outputs_set, results = _dataset([acl.mdl.get_output_size_by_index(desc, i) for i in range(outputs)])
        ok(acl.mdl.execute(model, inputs_set, outputs_set))
        arrays = []
        for index, (address, _) in enumerate(results):
            dtype = np.dtype(numpy_name(acl.mdl.get_output_data_type(desc, index)))
            array = np.empty(_dims(desc, index), dtype)
            if array.nbytes:
                ok(acl.rt.memcpy(int(array.ctypes.data), array.nbytes, address, array.nbytes, _TO_HOST))
            arrays.append(array)
        ok(acl.mdl.unload(model))
        return arrays
