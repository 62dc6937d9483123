"""All passes in their order, on models of any kind."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as op

from softnpu.compiler.passes import order
from softnpu.compiler.passes.fusion import FusionReport, Switches
from softnpu.graph.ir import Graph, Node, Output, Source, Value
from tests.unit.compiler.onnx_graphs import compute, load, model, original, types
from tests.unit.compiler.passes.pass_graphs import CONV, NORM, W, X, norm_weights, rand


def test_what_bodies_take_by_name_stays(tmp_path: Path) -> None:
    def body(kind: str, name: str):
        result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        return helper.make_graph([op(kind, [name], ["z"])], "body", [], [result])

    nodes = [
        op("Identity", ["x"], ["i"]),
        op("Relu", ["x"], ["r"]),
        op("Relu", ["x"], ["s"]),
        op("If", ["c"], ["a"], then_branch=body("Abs", "i"), else_branch=body("Neg", "r")),
        op("If", ["c"], ["b"], then_branch=body("Exp", "i"), else_branch=body("Neg", "s")),
        op("Add", ["a", "b"], ["t"]),
        op("Sub", ["t", "i"], ["y"]),
    ]
    proto = model(nodes, {"x": [2, 3], "c": (TensorProto.BOOL, [])}, ["y"])
    graph = load(proto, tmp_path)
    order.run(graph, Switches(), FusionReport())
    for choice in (True, False):
        feeds = {"x": rand(2, 3), "c": np.array(choice)}
        np.testing.assert_allclose(compute(graph, feeds)[0], original(proto, feeds)[0], rtol=1e-6)


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_the_whole_order_on_a_block(tmp_path: Path) -> None:
    nodes = [
        op("Pad", ["x", "pads"], ["p"]),
        op("Conv", ["p", "w"], ["c0"]),
        op("Add", ["c0", "k"], ["c1"]),
        op("Mul", ["c1", "k"], ["c"]),
        NORM,
        op("Relu", ["y"], ["r"]),
        op("Identity", ["r"], ["i"]),
        op("Conv", ["i", "v"], ["z"]),
    ]
    weights = (
        W | norm_weights(8) | {"k": rand(8, 1, 1), "v": rand(2, 8, 1, 1), "pads": np.array([0, 0, 1, 1] * 2, np.int64)}
    )
    proto = model(nodes, X, ["z"], weights)
    graph = load(proto, tmp_path)
    report = FusionReport()
    order.run(graph, Switches(), report)
    assert types(graph) == ["Conv2D", "Conv2D"]
    assert report.counts("ConvBatchnormFusionPass") == (1, 1)
    assert report.counts("TbeCommonRules0FusionPass") == (1, 1)
    feeds = {"x": rand(2, 4, 6, 6, seed=11)}
    np.testing.assert_allclose(compute(graph, feeds)[0], original(proto, feeds)[0], rtol=1e-4, atol=1e-4)


def test_switched_off_passes_do_not_run(tmp_path: Path) -> None:
    proto = model([CONV, NORM, op("Relu", ["y"], ["z"])], X, ["z"], W | norm_weights(8))
    graph = load(proto, tmp_path)
    order.run(graph, Switches({"GraphFusion": {"ALL": False}, "UBFusion": {"ALL": False}}), report := FusionReport())
    assert types(graph) == ["Conv2D", "BatchNorm", "Relu"]
    assert report.content() == [{"session_and_graph_id_0_0": {"graph_fusion": {}, "ub_fusion": {}}}]


UNARY = ["Relu", "Sigmoid", "Tanh", "Identity", "Neg", "Softplus", "Dropout", "Cast", "Transpose", "Erf", "Abs"]
CHANNELS = 4


def random_model(seed: int):
    """A random graph of pictures of one size: chains that passes know, loose ends, shared values, constants."""
    rng = np.random.default_rng(seed)
    nodes, values, weights = [], ["x"], {}

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights[name] = (rng.standard_normal(shape) * 0.5).astype(np.float32)
        return name

    def add(kind: str, *inputs: str, **attrs) -> None:
        values.append(f"v{len(nodes)}")
        nodes.append(op(kind, list(inputs), [values[-1]], **attrs))

    for _ in range(int(rng.integers(6, 18))):
        x = values[-1] if rng.random() < 0.7 else str(rng.choice(values))
        choice = int(rng.integers(0, 9))
        if choice <= 2:
            kind = str(rng.choice(UNARY))
            attrs = {"Cast": {"to": 1}, "Transpose": {"perm": [0, 1, 3, 2]}}.get(kind, {})
            add(kind, x, **attrs)
        elif choice == 3:
            add(
                "Conv",
                x,
                weight(CHANNELS, CHANNELS, 3, 3),
                *([weight(CHANNELS)] if rng.random() < 0.5 else []),
                pads=[1, 1, 1, 1],
            )
        elif choice == 4:
            shapes = [(CHANNELS, 1, 1), (), (1, 1, 1, 1), (5, 5), (1, CHANNELS, 1, 1)]
            constant = weight(*shapes[int(rng.integers(len(shapes)))])
            pair = (x, constant) if rng.random() < 0.5 else (constant, x)
            add(str(rng.choice(["Mul", "Add"])), *pair)
        elif choice == 5:
            statistics = [weight(CHANNELS) for _ in range(4)]
            weights[statistics[3]] = np.abs(weights[statistics[3]]) + 0.5
            add("BatchNormalization", x, *statistics)
        elif choice == 6:
            add(str(rng.choice(["Add", "Mul", "Max"])), x, str(rng.choice(values)))
        elif choice == 7:
            weights["two"] = np.array(2, np.float32)
            add("Tanh", x)
            add("Pow", values[-1], "two")
        else:
            add("Softplus", x)
            add("Tanh", values[-1])
            add("Mul", x, values[-1])
    outputs = list(dict.fromkeys([values[-1], str(rng.choice(values[1:]))]))
    return model(nodes, {"x": [1, CHANNELS, 5, 5]}, outputs, weights)


@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_of_passes_keeps_the_numbers(seed: int, tmp_path: Path) -> None:
    proto = random_model(seed)
    graph = load(proto, tmp_path)
    feeds = {"x": rand(1, CHANNELS, 5, 5, seed=seed) * 0.5}
    expected = original(proto, feeds)
    steps = list(order.ORDER)
    if seed % 2:
        np.random.default_rng(seed).shuffle(steps)
    for step in steps:
        match, effect = step.run(graph)
        assert 0 <= effect <= match
        graph.verify()
    names = [value.name for value in graph.values()]
    assert len(names) == len(set(names))
    for mine, theirs in zip(compute(graph, feeds), expected, strict=True):
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(mine / scale, theirs / scale, atol=1e-5)


def test_passes_are_linear() -> None:
    """Ten times the nodes may not take much more than ten times as long."""

    def graph_of(count: int) -> Graph:
        graph = Graph("g", {"": 13})
        value = graph.data_node("x", 0, (1, 4)).output
        for index in range(count):
            kind = ("Relu", "Identity", "Neg", "Sigmoid")[index % 4]
            out = Value(f"v{index}", 0, (1, 4))
            source = Source([{"op_type": kind, "input": [value.name], "output": [out.name]}], [value.name], [out.name])
            graph.add(Node(f"n{index}", kind, [value], [out], source=source, origin=[f"n{index}"]))
            value = out
        graph.outputs.append(Output(value, "y"))
        return graph

    def seconds(count: int) -> float:
        graph = graph_of(count)
        begin = time.process_time()
        order.run(graph, Switches(), FusionReport())
        return time.process_time() - begin

    seconds(200)
    assert seconds(20000) < 40 * seconds(2000) + 0.5
