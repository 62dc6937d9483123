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

    def __init__(
        self, program: StoredProgram, weights_file: tuple[Path, str, int] | None, weights: memoryview | None
    ) -> None:
        """`weights` are the weights as they were mapped or copied. With `weights_file`, which is the file that holds them, the first session
        maps that; later ones read `weights`, since by then another file may have the name."""
        self._program, self._weights = program, weights
        self._lock = threading.Lock()
        self.threads = compute_threads()
        self._sessions: dict[int, Any] = {self.threads: self._make(self.threads, weights_file)}
        self._known = frozenset(node.name for node in self._sessions[self.threads].get_inputs())
        self._divisible = sum(weight.size for weight in program.weights) <= _SPLIT_BYTES

    def _make(self, threads: int, weights_file: tuple[Path, str, int] | None = None) -> Any:
        ort = runtime()
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        if weights_file is not None:
            folder, location, base = weights_file
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
        session = self._sessions.get(threads if self._divisible else self.threads)
        if session is None:
            with self._lock:
                session = self._sessions.get(threads)
                if session is None:
                    session = self._sessions[threads] = self._make(threads)
        return session

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Bind device memory to the session."""
        return _OrtPlan(self, [place for place in inputs if place.name in self._known], outputs)

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
            session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception:
            raise error from None
        log().write(
            WARNING,
            f"the engine runs the model without optimisation: {' '.join(str(error).split())[:300]}",
            "GE",
            "load",
        )
        return session


class _OrtPlan(Plan):
    def __init__(self, engine: OrtEngine, inputs: list[Place], outputs: list[Place]) -> None:
        self._engine = engine
        self._inputs, self._outputs = inputs, outputs
        self._open = [index for index, place in enumerate(outputs) if place.shape is None]
        self._bound: dict[int, tuple[Any, Any]] = {}
        self._last = self._bind(engine.threads)

    def _bind(self, threads: int) -> tuple[Any, Any]:
        session = self._engine.session(threads)
        binding = session.io_binding()
        for place in self._inputs:
            assert place.shape is not None
            binding.bind_input(
                place.name, "cpu", 0, _element(place.dtype), list(place.shape), place.address or _EMPTY.ctypes.data
            )
        for place in self._outputs:
            if place.shape is None:
                binding.bind_output(place.name, "cpu")
            else:
                binding.bind_output(
                    place.name, "cpu", 0, _element(place.dtype), list(place.shape), place.address or _EMPTY.ctypes.data
                )
        bound = self._bound[threads] = (session.run_with_iobinding, binding)
        return bound

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
        results: list[tuple[int, Shape, int, object]] = []
        for index in self._open:
            value = values[index]
            results.append((from_onnx(value.element_type()), tuple(value.shape()), value.data_ptr(), value))
        return results


def _element(dtype: int) -> Any:
    name = numpy_name(dtype)
    return np.dtype(name).type if name else to_onnx(dtype)
