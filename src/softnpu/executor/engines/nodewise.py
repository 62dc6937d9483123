"""The instrumented engine: node by node, so that each can be watched, timed and named when it fails.

Every CANN node is a small session of its own, made when it first runs, on one thread and with nothing optimised. Large
weights are handed in where they lie. It is slower than the engines that see the whole graph; the numbers are the same.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from softnpu.base.dtypes import DType, element_size, from_onnx, numpy_name, to_onnx
from softnpu.base.errors import NpuError, codes
from softnpu.base.trace import Span, bus
from softnpu.base.watch import NodeRun, Seen, Watcher, show
from softnpu.compiler.lowering.evaluate import runtime
from softnpu.executor.engines._units import ND, Facts, Piece, Unit, facts_of, take_apart
from softnpu.executor.engines.base import Array, Engine, Place, Plan, Shape, view
from softnpu.executor.engines.mixed import MixedEngine, _compute
from softnpu.graph.om import ModelInfo, Om, StoredProgram
from softnpu.graph.onnx_def import GRAPH, RAW_MODEL
from softnpu.graph.wire import encode

_PREFIX = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : )?(Non-zero status code returned while running \w+ node\. Name:'[^']*' Status Message: )?"
)
_ELEMENTS = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9, "float16": 10,
    "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16, "float8e4m3fn": 17,
    "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4e2m1": 23,
}  # fmt: skip
_OUTER = {"seq": "sequence_type", "optional": "optional_type"}
_STRING = DType.STRING


class Subject(Protocol):
    """The model that an engine runs, as it is known to others."""

    @property
    def name(self) -> str:
        """Its inner name."""

    @property
    def number(self) -> int:
        """The id that programs use."""

    def place(self) -> tuple[int, int]:
        """Device and stream of the run that goes on in the calling thread."""


class _Nobody:
    """The subject of an engine that was opened for itself."""

    name, number = "", 0

    def place(self) -> tuple[int, int]:
        return -1, -1


class NodeError(NpuError):
    """A node that failed: `run` describes it, and `keep` holds the memory that its inputs lie in."""

    def __init__(self, run: NodeRun, reason: str, keep: object) -> None:
        shapes = ", ".join(f"{tensor.dtype}:{list(tensor.shape)}" for tensor in run.inputs)
        text = f"node {run.name} of type {run.type} failed on inputs (data type:dims) {shapes or 'none'}: {reason}"
        super().__init__(codes.GE_INTERNAL_ERROR, text, "check the values and shapes of the inputs")
        self.run = run
        self.keep = keep

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Occasion:
    """What all nodes of one run have in common."""

    model: str
    number: int
    iteration: int
    device: int
    stream: int

    def run(self, facts: Facts, inputs: Sequence[Seen], outputs: Sequence[Seen]) -> NodeRun:
        common = (self.model, self.number, self.iteration, self.device, self.stream)
        return NodeRun(facts.name, facts.type, tuple(inputs), tuple(outputs), facts.origin, *common, facts.number)


class NodewiseEngine(Engine):
    """Runs the nodes of a model one after the other. `watchers` see each of them, `subject` says whose nodes they are."""

    name = "nodewise"

    def __init__(self, source: Om, info: ModelInfo, programs: list[StoredProgram] | None = None) -> None:
        self._weights = source.all_weights()
        self._facts = facts_of(source)
        self._pieces = [take_apart(program, self._facts) for program in programs or source.programs()]
        self._steps = info.run.steps
        MixedEngine([self] * len(self._pieces), self._steps)  # refuses steps that cannot be run
        self._iterations = itertools.count()
        self.watchers: tuple[Watcher, ...] = ()
        self.subject: Subject = _Nobody()

    @property
    def nodes(self) -> dict[str, Facts]:
        """The nodes of the model by name."""
        return self._facts

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Take the places as they are; sessions are made while running, when types are known."""
        return _Plan(self, inputs, outputs)

    def close(self) -> None:
        """Let all sessions go."""
        for piece in self._pieces:
            piece.constants.clear()
            for unit in piece.units:
                unit.sessions.clear()

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, values: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """Run every node; `values` are the inputs by name, the answer has the wanted outputs."""
        subject = self.subject
        occasion = _Occasion(subject.name, subject.number, next(self._iterations), *subject.place())
        if not self._steps:
            return self._run_piece(self._pieces[0], values, wanted, occasion)
        for step in self._steps:
            if "program" in step:
                scope = {name: values[name] for name in step["inputs"]}
                values.update(self._run_piece(self._pieces[step["program"]], scope, step["outputs"], occasion))
            else:
                values.update(self._run_host(step, values, occasion))
        return values

    def _run_piece(
        self, piece: Piece, values: dict[str, Any], wanted: Sequence[str], occasion: _Occasion
    ) -> dict[str, Any]:
        keep = set(wanted)
        for index, unit in enumerate(piece.units):
            values_in = {name: values.get(name) or self._constant(piece, name) for name in unit.taken}
            call = functools.partial(self._call, piece, unit, values_in)
            results = self._node(unit.facts, occasion, call, [values_in[name] for name in unit.shown], values_in)
            values.update(zip(unit.made, results, strict=True))
            for name in unit.taken:
                if name not in keep and piece.last_use[name] == index:
                    values.pop(name, None)
        return {name: values.get(name) or self._constant(piece, name) for name in wanted}

    def _run_host(self, step: dict[str, Any], values: dict[str, Any], occasion: _Occasion) -> dict[str, Any]:
        names = [name for name in step["inputs"] if isinstance(name, str)]
        arrays = {name: _array(values[name]) for name in names}
        facts = self._facts.get(step["name"]) or Facts(step["name"], step["type"])
        results = self._node(
            facts,
            occasion,
            lambda: [_value(array) for array in _compute(step, arrays)],
            [values[name] for name in names],
            values,
        )
        return dict(zip(step["outputs"], results, strict=False))

    def _node(
        self, facts: Facts, occasion: _Occasion, call: Callable[[], list[Any]], inputs: list[Any], keep: object
    ) -> list[Any]:
        """Run one node, time it, show it, or say what failed."""
        start = time.monotonic_ns()
        try:
            results = call()
        except Exception as error:
            outputs = [Seen(dtype, form, dims, None) for dtype, form, dims in facts.outputs]
            reason = _PREFIX.sub("", " ".join(str(getattr(error, "text", error)).split()))[:600]
            raise NodeError(occasion.run(facts, _seen(inputs, facts.input_formats), outputs), reason, keep) from error
        end = time.monotonic_ns()
        if self.watchers:
            formats = tuple(form for _, form, _ in facts.outputs)
            show(self.watchers, occasion.run(facts, _seen(inputs, facts.input_formats), _seen(results, formats)))
        if bus.listeners:
            detail: dict[str, object] = {
                "type": facts.type,
                "model": occasion.model,
                "model_id": occasion.number,
                "iteration": occasion.iteration,
                "task_id": facts.number,
            }
            bus.publish(
                Span("op", facts.name, start, end, occasion.device, occasion.stream, threading.get_native_id(), detail)
            )
        return results

    def _call(self, piece: Piece, unit: Unit, values_in: dict[str, Any]) -> list[Any]:
        fed = {name: value for name, value in values_in.items() if name not in piece.small}
        key = tuple((value.data_type(), _rank(value)) for value in fed.values())
        session = unit.sessions.get(key)
        if session is None:
            session = unit.sessions[key] = _session(piece, unit, fed)
        return list(session.run_with_ort_values(unit.made, fed))

    def _constant(self, piece: Piece, name: str) -> Any:
        """A constant where it lies in the model."""
        value = piece.constants.get(name)
        if value is None:
            value = piece.constants[name] = self._load(piece, name)
        return value

    def _load(self, piece: Piece, name: str) -> Any:
        if name in piece.large:
            dtype, dims, offset, size = piece.large[name]
            return _from_bytes(self._weights[offset : offset + size], dtype, dims)
        tensor = piece.small[name]
        if "raw_data" in tensor and tensor.get("data_type") != to_onnx(_STRING):
            return _from_bytes(tensor["raw_data"], tensor["data_type"], tensor.get("dims", []))
        return _loaded(tensor)


class _Plan(Plan):
    def __init__(self, engine: NodewiseEngine, inputs: list[Place], outputs: list[Place]) -> None:
        self._engine = engine
        self._inputs = inputs
        self._outputs = outputs
        self._found: list[tuple[int, Shape, int, object]] = []

    def run(self) -> None:
        """Run every node and put the outputs where they belong."""
        values = {place.name: _value(view(place), place.dtype) for place in self._inputs}
        results = self._engine.run(values, [place.name for place in self._outputs])
        self._found = []
        for place in self._outputs:
            value = results[place.name]
            if place.shape is None:
                self._found.append((from_onnx(value.element_type()), tuple(value.shape()), value.data_ptr(), value))
            else:
                view(place)[...] = _array(value)

    def results(self) -> list[tuple[int, Shape, int, object]]:
        """Outputs without a place."""
        return self._found


# ---- values ----------------------------------------------------------------------------------------------------------


def _value(array: Array, dtype: int = -1) -> Any:
    """An array as the engine's value; nothing is copied unless its elements do not lie one behind the other."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    if dtype >= 0 and not numpy_name(dtype):
        return runtime().OrtValue.ortvalue_from_numpy_with_onnx_type(array, to_onnx(dtype))
    return runtime().OrtValue.ortvalue_from_numpy(array)


def _from_bytes(data: bytes | memoryview, number: int, dims: list[int]) -> Any:
    dtype = from_onnx(number)
    name = numpy_name(dtype)
    if name:
        return _value(np.frombuffer(data, name).reshape(dims))
    if element_size(dtype) in (1, 2) and len(data) == element_size(dtype) * int(np.prod(dims)):
        return _value(np.frombuffer(data, np.uint8 if element_size(dtype) == 1 else np.uint16).reshape(dims), dtype)
    return _loaded({"dims": dims, "data_type": number, "raw_data": data})


def _loaded(tensor: dict[str, Any]) -> Any:
    """A constant that only the engine can read (strings, types of less than a byte): what a session of nothing else answers."""
    graph = encode(GRAPH, {"name": "constant", "initializer": [{**tensor, "name": "c"}], "output": [{"name": "c"}]})
    head = encode(RAW_MODEL, {"ir_version": 10, "opset_import": [{"domain": "", "version": 21}]})
    session = _open(StoredProgram(memoryview(head), memoryview(graph), []).onnx("", 0))
    return session.run_with_ort_values(["c"], {})[0]


def _array(value: Any) -> Array:
    """The memory of a value as an array (bfloat16 as its bits)."""
    return view(Place("", from_onnx(value.element_type()), tuple(value.shape()), value.data_ptr()))


def _seen(values: Sequence[Any], formats: tuple[int, ...]) -> list[Seen]:
    """Values as watchers get them."""
    seen = []
    for index, value in enumerate(values):
        form = formats[index] if index < len(formats) else ND
        if not value.is_tensor():
            seen.append(Seen(-1, form, (), None))
            continue
        dtype, shape = from_onnx(value.element_type()), tuple(value.shape())
        plain = bool(numpy_name(dtype)) or element_size(dtype) == 2
        if dtype == _STRING or not plain:
            seen.append(Seen(dtype, form, shape, None))
        else:
            seen.append(Seen(dtype, form, shape, _array(value), value.data_ptr()))
    return seen


def holding(run: NodeRun) -> NodeRun:
    """The same without arrays: what can be kept when the run is over."""
    return replace(
        run,
        inputs=tuple(replace(tensor, array=None) for tensor in run.inputs),
        outputs=tuple(replace(tensor, array=None) for tensor in run.outputs),
    )


# ---- sessions --------------------------------------------------------------------------------------------------------


def _rank(value: Any) -> int:
    return len(value.shape()) if value.is_tensor() else -1


def _session(piece: Piece, unit: Unit, fed: dict[str, Any]) -> Any:
    """A session over the operators of one node, for inputs of these types and ranks."""
    message = {
        "node": unit.ops,
        "name": unit.facts.name or "node",
        "initializer": [piece.small[name] for name in unit.taken if name in piece.small],
        "input": [{"name": name, "type": _type(value.data_type(), _rank(value))} for name, value in fed.items()],
        "output": [{"name": name} for name in unit.made],
    }
    return _open(StoredProgram(piece.program.model, memoryview(encode(GRAPH, message)), []).onnx("", 0))


def _open(data: bytes) -> Any:
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _type(type_name: str, rank: int) -> dict[str, Any]:
    """A TypeProto from the engine's word for a type, e.g. `seq(tensor(float))`."""
    outer, _, inner = type_name.partition("(")
    inner = inner.removesuffix(")")
    if outer in _OUTER:
        return {_OUTER[outer]: {"elem_type": _type(inner, -1)}}
    if outer != "tensor" or inner not in _ELEMENTS:
        raise NpuError(
            codes.API_NOT_SUPPORT,
            f"values of type {type_name} cannot pass between nodes here",
            "run the model with SOFTNPU_ENGINE=onnxruntime",
        )
    shape: dict[str, Any] = {"shape": {"dim": [{}] * rank}} if rank >= 0 else {}
    return {"tensor_type": {"elem_type": _ELEMENTS[inner], **shape}}
