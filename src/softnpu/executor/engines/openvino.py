"""OpenVINO on the CPU (extra `[openvino]`): for models with fixed shapes, where it is the faster one."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from softnpu.base.config import compute_threads
from softnpu.base.errors import NpuError, codes
from softnpu.executor import crowd
from softnpu.executor.engines.base import Engine, Place, Plan, Shape, view
from softnpu.graph.om import StoredProgram

_INLINE_LIMIT = 1 << 30
_SETTINGS = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}


def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("openvino") is not None


@functools.cache
def _core() -> Any:
    if not installed():
        raise NpuError(codes.FEATURE_UNSUPPORTED, "OpenVINO is not installed", "pip install 'softnpu[openvino]'")
    import openvino

    return openvino, openvino.Core()


class OpenVinoEngine(Engine):
    """A compiled model over a program."""

    name = "openvino"

    def __init__(self, program: StoredProgram, weights_file: tuple[Path, str, int] | None, weights: memoryview) -> None:
        _, core = _core()
        with _source(program, weights_file, weights) as source:
            model = core.read_model(source)
            self._compiled = core.compile_model(model, "CPU", {**_SETTINGS, "INFERENCE_NUM_THREADS": compute_threads()})
        self.inputs = {name: index for index, port in enumerate(self._compiled.inputs) for name in port.get_names()}
        self.outputs = {name: index for index, port in enumerate(self._compiled.outputs) for name in port.get_names()}

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Bind device memory to a request of its own."""
        return _OpenVinoPlan(self, self._compiled.create_infer_request(), inputs, outputs)

    def close(self) -> None:
        """Let the model go."""
        del self._compiled


class _OpenVinoPlan(Plan):
    def __init__(self, engine: OpenVinoEngine, request: Any, inputs: list[Place], outputs: list[Place]) -> None:
        openvino, _ = _core()
        self._request = request
        self._run = request.infer
        for place in inputs:
            if place.name in engine.inputs:
                request.set_input_tensor(engine.inputs[place.name], openvino.Tensor(view(place), shared_memory=True))
        self._open: list[tuple[int, int]] = []
        for place in outputs:
            index = engine.outputs[place.name]
            if place.shape is None:
                self._open.append((index, place.dtype))
            else:
                request.set_output_tensor(index, openvino.Tensor(view(place), shared_memory=True))

    def run(self) -> None:
        """Run once; its threads cannot be divided, but others shall know of it."""
        crowd.enter()
        try:
            self._run()
        finally:
            crowd.leave()

    def results(self) -> list[tuple[int, Shape, int, object]]:
        """Outputs that the request allocated."""
        results: list[tuple[int, Shape, int, object]] = []
        for index, dtype in self._open:
            data = self._request.get_output_tensor(index).data
            results.append((dtype, tuple(data.shape), int(data.ctypes.data), data))
        return results


@contextlib.contextmanager
def _source(program: StoredProgram, weights_file: tuple[Path, str, int] | None, weights: memoryview) -> Iterator[Any]:
    """What to read the model from: a file beside the weights, which are then mapped, or bytes that hold everything."""
    if weights_file is not None:
        folder, location, base = weights_file
        path = folder / f".{location}.{uuid.uuid4().hex[:12]}.onnx"
        try:
            path.write_bytes(program.onnx(location, base))
        except OSError:  # a folder that cannot be written
            path.unlink(missing_ok=True)
        else:
            try:
                yield str(path)
            finally:
                path.unlink(missing_ok=True)
            return
    if len(weights) > _INLINE_LIMIT:
        raise NpuError(
            codes.FEATURE_UNSUPPORTED,
            "the folder of the model cannot be written, and its weights are too large to be copied",
            "use SOFTNPU_ENGINE=onnxruntime",
        )
    yield program.onnx_inline(weights)
