"""Node by node: the same numbers as the engine that sees the whole graph, every node seen, timed, and named when it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.base.trace import Span, bus
from softnpu.base.watch import NodeRun
from softnpu.compiler import build
from softnpu.compiler.interface.model_info import describe_model
from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.options import checks
from softnpu.compiler.options.rows import parse
from softnpu.compiler.options.shapes import Shapes
from softnpu.compiler.write import write
from softnpu.executor import choose
from softnpu.executor.engines.base import Engine, Place, view
from softnpu.executor.engines.nodewise import NodeError, NodewiseEngine
from softnpu.graph.ir import Graph, Output
from softnpu.graph.om import Om

Array = np.ndarray[Any, Any]
FLOAT, INT64, FLOAT16 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT16
SOC = "--soc_version=Ascend310P3"
RNG = np.random.default_rng(20)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


class Onnx:
    """An ONNX model under construction."""

    def __init__(self, **inputs: tuple[int, list[Any]]) -> None:
        self.inputs, self.nodes, self.weights = inputs, list[Any](), dict[str, Array]()

    def op(self, kind: str, inputs: str, outputs: str, **attrs: Any) -> Onnx:
        """Add an operator; its name is its first output's with a tail, so that nodes and tensors differ."""
        names = outputs.split()
        self.nodes.append(helper.make_node(kind, inputs.split(), names, f"{names[0]}_node", **attrs))
        return self

    def const(self, **weights: Array) -> Onnx:
        self.weights.update(weights)
        return self

    def save(self, path: Path, outputs: str) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, *info) for name, info in self.inputs.items()]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", infos, results, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, path)
        return model


def convolutions() -> tuple[Onnx, str, dict[str, Array]]:
    model = Onnx(x=(FLOAT, [2, 3, 16, 16]))
    model.const(w=floats(16, 3, 3, 3), b=floats(16), s=floats(16), o=floats(16), m=floats(16), v=np.abs(floats(16)))
    model.op("Conv", "x w b", "c", pads=[1, 1, 1, 1]).op("BatchNormalization", "c s o m v", "n").op("Relu", "n", "r")
    model.op("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]).op("Flatten", "p", "f")
    model.const(g=floats(16 * 64, 10) * np.float32(0.02), h=floats(10)).op("Gemm", "f g h", "y").op(
        "Softmax", "y", "z", axis=1
    )
    return model, "z y", {"x": floats(2, 3, 16, 16)}


def attention() -> tuple[Onnx, str, dict[str, Array]]:
    model = Onnx(ids=(INT64, [2, 7]))
    model.const(
        table=floats(50, 32),
        q=floats(32, 32),
        k=floats(32, 32),
        scale=np.float32(32**-0.5),
        gain=floats(32),
        shift=floats(32),
    )
    model.op("Gather", "table ids", "e").op("LayerNormalization", "e gain shift", "l", axis=-1)
    model.op("MatMul", "l q", "mq").op("MatMul", "l k", "mk").op("Transpose", "mk", "mt", perm=[0, 2, 1])
    model.op("MatMul", "mq mt", "a").op("Mul", "a scale", "as").op("Softmax", "as", "p").op("MatMul", "p l", "o")
    model.op("Erf", "o", "er").op("Mul", "er er", "sq").op("ReduceMean", "sq", "y", axes=[-1])
    return model, "y", {"ids": RNG.integers(0, 50, (2, 7))}


def several_outputs() -> tuple[Onnx, str, dict[str, Array]]:
    model = Onnx(x=(FLOAT, [4, 6]))
    model.op("Split", "x", "a b c", axis=1).op("TopK", "x two", "v i").const(two=np.array([2], np.int64))
    model.op("Concat", "c a", "d", axis=1).op("Cast", "i", "j", to=FLOAT).op("Add", "v j", "w")
    return model, "d w b", {"x": floats(4, 6)}


def bodies() -> tuple[Onnx, str, dict[str, Array]]:
    """An If whose branches take a value from around them, and a sequence between two nodes."""
    model = Onnx(x=(FLOAT, [4, 6]))
    info = [helper.make_tensor_value_info("t", FLOAT, None)]
    then = helper.make_graph([helper.make_node("Add", ["twice", "x"], ["t"])], "then", [], info)
    info = [helper.make_tensor_value_info("f", FLOAT, None)]
    other = helper.make_graph([helper.make_node("Neg", ["twice"], ["f"])], "else", [], info)
    model.op("Add", "x x", "twice").op("ReduceSum", "x", "sum", keepdims=0).op("Greater", "sum zero", "yes")
    model.const(zero=np.float32(0)).op("If", "yes", "chosen", then_branch=then, else_branch=other)
    model.op("SplitToSequence", "chosen", "parts", axis=0, keepdims=1).op(
        "ConcatFromSequence", "parts", "joined", axis=1
    )
    return model, "joined", {"x": floats(4, 6)}


def half() -> tuple[Onnx, str, dict[str, Array]]:
    model = Onnx(x=(FLOAT16, [3, 8]))
    model.const(w=floats(8, 8).astype(np.float16)).op("MatMul", "x w", "m").op("Tanh", "m", "y")
    return model, "y", {"x": floats(3, 8).astype(np.float16)}


MODELS = [convolutions, attention, several_outputs, bodies, half]


def convert(model: Onnx, outputs: str, *more: str) -> Om:
    model.save(Path("m.onnx"), outputs)
    options = parse(["--model=m.onnx", "--framework=5", "--output=m", SOC, *more])
    checks.check(options)
    (path,) = build.build(options).files
    return Om.open(path)


def run(engine: Engine, source: Om, feeds: list[Array]) -> list[Array]:
    info = source.info()
    names = [name for name in info.run.engine_inputs if name is not None]
    arrays = [np.ascontiguousarray(feed) for feed in feeds]
    inputs = [
        Place(name, tensor.dtype, array.shape, int(array.ctypes.data))
        for name, tensor, array in zip(names, info.inputs, arrays, strict=True)
    ]
    plan = engine.plan(inputs, [Place(name, -1, None, 0) for name in dict.fromkeys(info.run.engine_outputs)])
    plan.run()
    return [view(Place("", dtype, shape, address)).copy() for dtype, shape, address, _keep in plan.results()]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_same_numbers(make: Callable[[], tuple[Onnx, str, dict[str, Array]]]) -> None:
    model, outputs, feeds = make()
    source = convert(model, outputs)
    engine = NodewiseEngine(source, source.info())
    whole = run(choose.open_model(source, source.info()), source, list(feeds.values()))
    first = run(engine, source, list(feeds.values()))
    again = run(engine, source, list(feeds.values()))
    golden = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"]).run(outputs.split(), feeds)
    tolerance = 2e-3 if feeds[next(iter(feeds))].dtype == np.float16 else 1e-5
    for result, other, third, wanted in zip(first, whole, again, golden, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        np.testing.assert_allclose(result, other, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(result, third)


def test_open_shapes() -> None:
    model = Onnx(x=(FLOAT, ["n", 8])).const(w=floats(8, 64)).op("MatMul", "x w", "m").op("Relu", "m", "y")
    source = convert(model, "y", "--input_shape=x:-1,8")
    engine = NodewiseEngine(source, source.info())
    for rows in (1, 5, 3):
        x = floats(rows, 8)
        (y,) = run(engine, source, [x])
        np.testing.assert_allclose(y, np.maximum(x @ model.weights["w"], 0), rtol=1e-5, atol=1e-5)


def host_model() -> Om:
    """Nodes that only NumPy computes between nodes of the engine."""
    graph = Graph("inverse", {"": 17}, framework=3)
    x = graph.data_node("x", 0, (3, 4, 4)).output
    eye = graph.const(np.eye(4, dtype=np.float32) * 9, "nine")
    last = x
    for kind, inputs in (("Add", [eye]), ("MatrixInverse", []), ("Neg", []), ("MatrixInverse", []), ("Abs", [])):
        node = graph.op(kind, [last, *inputs])
        infer_node(graph, node)
        last = node.output
    graph.outputs.append(Output(last, "y"))
    info = describe_model(graph, Shapes())
    options = parse(["--model=m.onnx", "--framework=5", "--output=host", SOC])
    write(graph, info, Path("host.om"), options, check=True)
    return Om.open(Path("host.om"))


class Watcher:
    """Keeps copies of all it sees."""

    def __init__(self) -> None:
        self.runs: list[NodeRun] = []
        self.arrays: dict[str, tuple[list[Array], list[Array]]] = {}

    def wants_model(self, names: frozenset[str]) -> bool:
        return True

    def wants_operators(self) -> bool:
        return True

    def meets(self, names: frozenset[str], nodes: frozenset[str]) -> None:
        pass

    def saw(self, run: NodeRun) -> None:
        self.runs.append(run)
        copies = [
            [tensor.array.copy() for tensor in listed if tensor.array is not None]
            for listed in (run.inputs, run.outputs)
        ]
        self.arrays[run.name] = copies[0], copies[1]


def test_steps_of_numpy() -> None:
    source = host_model()
    assert source.info().run.steps
    engine = NodewiseEngine(source, source.info())
    engine.watchers = (watcher := Watcher(),)
    x = floats(3, 4, 4)
    (y,) = run(engine, source, [x])
    shifted = x.astype(np.float64) + 9 * np.eye(4)
    np.testing.assert_allclose(y, np.abs(-shifted), rtol=1e-4, atol=1e-5)
    assert [run.type for run in watcher.runs] == ["Add", "MatrixInverse", "Neg", "MatrixInverse", "Abs"]
    (taken,), (result,) = watcher.arrays["MatrixInverse"]
    np.testing.assert_allclose(taken, shifted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result, np.linalg.inv(shifted), rtol=1e-4, atol=1e-5)


def test_what_watchers_see() -> None:
    model = Onnx(x=(FLOAT, [2, 32])).const(w=floats(32, 32), b=floats(32))
    model.op("MatMul", "x w", "m").op("Sub", "m b", "d").op("Mul", "d d", "y")
    source = convert(model, "y")
    engine = NodewiseEngine(source, source.info())
    engine.watchers = (watcher := Watcher(),)
    x = floats(2, 32)
    run(engine, source, [x])
    run(engine, source, [x])
    types = [run.type for run in watcher.runs]
    assert len(types) == 6 and types[:3] == types[3:]
    assert [run.iteration for run in watcher.runs] == [0, 0, 0, 1, 1, 1]
    assert "Mul" in types or "Square" in types
    inputs, (result,) = watcher.arrays["m_node"]
    np.testing.assert_array_equal(inputs[0], x)
    np.testing.assert_array_equal(inputs[1], model.weights["w"])
    np.testing.assert_allclose(result, x @ model.weights["w"], rtol=1e-5, atol=1e-5)
    (_, taken), (difference,) = watcher.arrays["d_node"]
    np.testing.assert_array_equal(taken, model.weights["b"])
    np.testing.assert_allclose(difference, x @ model.weights["w"] - model.weights["b"], rtol=1e-5, atol=1e-5)


def test_every_node_is_a_span() -> None:
    model, outputs, feeds = attention()
    source = convert(model, outputs)
    engine = NodewiseEngine(source, source.info())
    spans: list[Span] = []
    stop = bus.subscribe(spans.append)
    try:
        run(engine, source, list(feeds.values()))
    finally:
        stop()
    assert {span.kind for span in spans} == {"op"}
    known = {
        name: facts.type for name, facts in engine.nodes.items() if facts.type not in ("Data", "Const", "NetOutput")
    }
    assert {span.name: span.detail["type"] for span in spans} == known
    assert all(span.start <= span.end for span in spans)
    assert [span.start for span in spans] == sorted(span.start for span in spans)


def test_a_node_that_fails_is_named() -> None:
    model = Onnx(x=(FLOAT, [4, 6]), i=(INT64, [2])).op("Abs", "x", "a").op("Gather", "a i", "y").op("Neg", "y", "z")
    source = convert(model, "z")
    engine = NodewiseEngine(source, source.info())
    run(engine, source, [floats(4, 6), np.array([0, 3])])
    x, wrong = floats(4, 6), np.array([0, 99])
    with pytest.raises(NodeError) as caught:
        run(engine, source, [x, wrong])
    error = caught.value
    assert (error.run.name, error.run.type) == ("y_node", "GatherV2") or error.run.type.startswith("Gather")
    for text in ("y_node", error.run.type, "[4, 6]", "[2]", "99"):
        assert text in error.text
    assert [tensor.shape for tensor in error.run.inputs][:2] == [(4, 6), (2,)]
    assert error.run.inputs[0].array is not None
    np.testing.assert_array_equal(error.run.inputs[0].array, np.abs(x))
    assert [tensor.shape for tensor in error.run.outputs] == [(2, 6)]


def test_a_watcher_that_raises_changes_nothing() -> None:
    model, outputs, feeds = half()
    source = convert(model, outputs)
    engine = NodewiseEngine(source, source.info())
    plain = run(engine, source, list(feeds.values()))

    class Broken(Watcher):
        def saw(self, run: NodeRun) -> None:
            raise ValueError("no disk")

    engine.watchers = (Broken(), watcher := Watcher())
    np.testing.assert_array_equal(run(engine, source, list(feeds.values())), plain)
    assert watcher.runs


def test_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    model, outputs, _ = half()
    source = convert(model, outputs)
    assert choose.open_model(source, source.info()).name == "onnxruntime"
    monkeypatch.setenv("SOFTNPU_ENGINE", "nodewise")
    assert choose.open_model(source, source.info()).name == "nodewise"
