"""Models of the inference benchmarks, written once per run, and a small pyACL client."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import acl

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@functools.cache
def folder() -> Path:
    """Where models of this run live; gone with the process."""
    keep = tempfile.TemporaryDirectory(prefix="softnpu-bench-")
    _kept.append(keep)
    return Path(keep.name)


_kept: list[Any] = []


def ocr(name: str) -> Path | None:
    """A model of the package rapidocr_onnxruntime, if it is installed."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "models").glob(f"*{name}*.onnx"), None)


def resnet50(batch: int) -> Path:
    """An untrained ResNet-50."""
    sys.path.insert(0, str(EXAMPLES))
    import models

    path = folder() / f"resnet50_{batch}.onnx"
    if not path.exists():
        models.resnet50(path, batch=batch)
    return path


def bert() -> Path:
    """BERT-base, sequence 128."""
    import bert

    path = folder() / "bert.onnx"
    if not path.exists():
        bert.write(path)
    return path


def convert(model: Path, *options: str, name: str = "") -> Path:
    """atc, quietly."""
    from softnpu.cli.atc import main

    output = folder() / (name or model.stem)
    where = os.getcwd()
    os.chdir(folder())
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            status = main(
                [f"--model={model}", "--framework=5", f"--output={output}", "--soc_version=Ascend310P3", *options]
            )
    finally:
        os.chdir(where)
    if status:
        raise SystemExit(text.getvalue())
    return output.with_name(output.name + ".om")


class Client:
    """A loaded model with its buffers: copies in, runs, copies out, as the manual's programs do."""

    def __init__(self, path: Path) -> None:
        self.id, ret = acl.mdl.load_from_file(str(path))
        assert ret == 0, acl.get_recent_err_msg()
        desc = acl.mdl.create_desc()
        acl.mdl.get_desc(desc, self.id)
        self.inputs, self._in = self._buffers(desc, acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index)
        self.outputs, self._out = self._buffers(desc, acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index)
        self._host = [acl.rt.malloc_host(size)[0] for _, size in self._out]
        acl.mdl.destroy_desc(desc)

    def _buffers(self, desc: int, count: int, size_of: Any) -> tuple[int, list[tuple[int, int]]]:
        dataset, buffers = acl.mdl.create_dataset(), []
        for index in range(count):
            size = size_of(desc, index)
            pointer, _ = acl.rt.malloc(size, 0)
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
            buffers.append((pointer, size))
        return dataset, buffers

    def bind(self, *arrays: np.ndarray[Any, Any]) -> Any:
        """A function that does everything from host arrays to host results."""
        pointers = [acl.util.numpy_contiguous_to_ptr(np.ascontiguousarray(array)) for array in arrays]

        def run() -> None:
            for (pointer, _), (device, size) in zip(pointers, self._in, strict=True):
                acl.rt.memcpy(device, size, pointer, size, 1)
            acl.mdl.execute(self.id, self.inputs, self.outputs)
            for host, (device, size) in zip(self._host, self._out, strict=True):
                acl.rt.memcpy(host, size, device, size, 2)

        return run

    def bind_address(self, address: int, size: int) -> Any:
        """A function that runs on an input that is in device memory already, and copies the result to the host."""
        dataset = acl.mdl.create_dataset()
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))

        def run() -> None:
            assert acl.mdl.execute(self.id, dataset, self.outputs) == 0, acl.get_recent_err_msg()
            for host, (device, length) in zip(self._host, self._out, strict=True):
                acl.rt.memcpy(host, length, device, length, 2)

        return run

    def execute(self) -> None:
        """The run alone."""
        acl.mdl.execute(self.id, self.inputs, self.outputs)

    def close(self) -> None:
        """Unload."""
        acl.mdl.unload(self.id)
