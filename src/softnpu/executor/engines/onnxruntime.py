"""The default engine: onnxruntime on the CPU, with inputs and outputs bound to device memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.config import compute_threads
from softnpu.base.dtypes import from_onnx, numpy_name, to_onnx
from softnpu.base.log import WARNING, log
from softnpu.compiler.evaluate import runtime
from softnpu.executor.engines.base import Engine, Place, Plan, Shape
from softnpu.graph.om import WEIGHTS, StoredProgram

_EMPTY = np.zeros(64, np.uint8)  # where tensors without elements lie


class OrtEngine(Engine):
    """A session over a program."""

    name = "onnxruntime"

    def __init__(self, program: StoredProgram, place: tuple[Path, str, int] | None, weights: memoryview | None) -> None:
        """`place` names the file that holds the weights, which is mapped; else they are read in `weights`, in place."""
        ort = runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = compute_threads()
        self._weights = weights  # kept alive: the session reads them where they are
        if place is not None:
            folder, location, base = place
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        else:
            location, base = WEIGHTS, 0
            if weights is not None and program.weights:
                options.add_external_initializers_from_files_in_memory([location], [weights], [len(weights)])
        self.session = _session(ort, program.onnx(location, base), options)
        self._known = frozenset(one.name for one in self.session.get_inputs())

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Bind device memory to the session."""
        return _OrtPlan(self.session, [one for one in inputs if one.name in self._known], outputs)

    def close(self) -> None:
        """Let the session go."""
        del self.session


def _session(ort: Any, data: bytes, options: Any) -> Any:
    """A session; a model that the engine's own optimiser stumbles over is taken as it is."""
    try:
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            found = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception:
            raise error from None
        log().write(WARNING, f"the engine runs the model without optimisation: {' '.join(str(error).split())[:300]}", "GE", "load")
        return found


class _OrtPlan(Plan):
    def __init__(self, session: Any, inputs: list[Place], outputs: list[Place]) -> None:
        self._session = session
        self._binding = binding = session.io_binding()
        for one in inputs:
            assert one.shape is not None
            binding.bind_input(one.name, "cpu", 0, _element(one.dtype), list(one.shape), one.address or _EMPTY.ctypes.data)
        self._open: list[tuple[int, str]] = []
        for index, one in enumerate(outputs):
            if one.shape is None:
                self._open.append((index, one.name))
                binding.bind_output(one.name, "cpu")
            else:
                binding.bind_output(one.name, "cpu", 0, _element(one.dtype), list(one.shape), one.address or _EMPTY.ctypes.data)
        self._run = session.run_with_iobinding

    def run(self) -> None:
        """Run once."""
        self._run(self._binding)

    def results(self) -> list[tuple[int, Shape, int, object]]:
        """Outputs that the session allocated."""
        if not self._open:
            return []
        values = self._binding.get_outputs()
        found: list[tuple[int, Shape, int, object]] = []
        for index, _ in self._open:
            value = values[index]
            found.append((from_onnx(value.element_type()), tuple(value.shape()), value.data_ptr(), value))
        return found


def _element(dtype: int) -> Any:
    name = numpy_name(dtype)
    return np.dtype(name).type if name else to_onnx(dtype)
