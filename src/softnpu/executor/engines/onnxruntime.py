"""The default engine: onnxruntime on the CPU, with inputs and outputs bound to device memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.config import compute_threads
from softnpu.base.dtypes import from_onnx, numpy_name, to_onnx
from softnpu.base.log import WARNING, log
from softnpu.compiler.lowering.evaluate import runtime
from softnpu.executor import crowd
from softnpu.executor.engines.base import Engine, Place, Plan, Shape
from softnpu.graph.om import WEIGHTS, StoredProgram

_SPLIT_BYTES = 512 << 20  # larger models are not loaded a second time
_EMPTY = np.zeros(64, np.uint8)  # where tensors without elements lie


class OrtEngine(Engine):
    """Sessions over a program: one that uses all threads, others with fewer when runs crowd."""

    name = "onnxruntime"

    def __init__(self, program: StoredProgram, place: tuple[Path, str, int] | None, weights: memoryview | None) -> None:
        """`weights` are the weights as they were mapped or copied. With `place`, the file that holds them, the first session
        maps that; later ones read `weights`, since by then another file may have the name."""
        self._program, self._weights = program, weights
        self._lock = threading.Lock()
        self.threads = compute_threads()
        self._sessions: dict[int, Any] = {self.threads: self._make(self.threads, place)}
        self._known = frozenset(one.name for one in self._sessions[self.threads].get_inputs())
        self._divisible = sum(row[4] for row in program.weights) <= _SPLIT_BYTES

    def _make(self, threads: int, place: tuple[Path, str, int] | None = None) -> Any:
        ort = runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        if place is not None:
            folder, location, base = place
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        else:
            location, base = WEIGHTS, 0
            if self._weights is not None and self._program.weights:
                options.add_external_initializers_from_files_in_memory(
                    [location], [self._weights], [len(self._weights)]
                )
        return _session(ort, self._program.onnx(location, base), options)

    def session(self, threads: int) -> Any:
        """The session for this number of threads, made when first needed."""
        found = self._sessions.get(threads if self._divisible else self.threads)
        if found is None:
            with self._lock:
                found = self._sessions.get(threads)
                if found is None:
                    found = self._sessions[threads] = self._make(threads)
        return found

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Bind device memory to the session."""
        return _OrtPlan(self, [one for one in inputs if one.name in self._known], outputs)

    def close(self) -> None:
        """Let the sessions go."""
        self._sessions.clear()


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
        log().write(
            WARNING,
            f"the engine runs the model without optimisation: {' '.join(str(error).split())[:300]}",
            "GE",
            "load",
        )
        return found


class _OrtPlan(Plan):
    def __init__(self, engine: OrtEngine, inputs: list[Place], outputs: list[Place]) -> None:
        self._engine = engine
        self._inputs, self._outputs = inputs, outputs
        self._open = [index for index, one in enumerate(outputs) if one.shape is None]
        self._bound: dict[int, tuple[Any, Any]] = {}
        self._last = self._bind(engine.threads)

    def _bind(self, threads: int) -> tuple[Any, Any]:
        session = self._engine.session(threads)
        binding = session.io_binding()
        for one in self._inputs:
            assert one.shape is not None
            binding.bind_input(
                one.name, "cpu", 0, _element(one.dtype), list(one.shape), one.address or _EMPTY.ctypes.data
            )
        for one in self._outputs:
            if one.shape is None:
                binding.bind_output(one.name, "cpu")
            else:
                binding.bind_output(
                    one.name, "cpu", 0, _element(one.dtype), list(one.shape), one.address or _EMPTY.ctypes.data
                )
        found = self._bound[threads] = (session.run_with_iobinding, binding)
        return found

    def run(self) -> None:
        """Run once, with as many threads as the runs beside it leave."""
        threads = crowd.enter()
        try:
            self._last = function, binding = self._bound.get(threads) or self._bind(threads)
            for index in self._open:  # else the session insists on the shape of the run before
                binding.bind_output(self._outputs[index].name, "cpu")
            function(binding)
        finally:
            crowd.leave()

    def results(self) -> list[tuple[int, Shape, int, object]]:
        """Outputs that the session allocated."""
        if not self._open:
            return []
        values = self._last[1].get_outputs()
        found: list[tuple[int, Shape, int, object]] = []
        for index in self._open:
            value = values[index]
            found.append((from_onnx(value.element_type()), tuple(value.shape()), value.data_ptr(), value))
        return found


def _element(dtype: int) -> Any:
    name = numpy_name(dtype)
    return np.dtype(name).type if name else to_onnx(dtype)
