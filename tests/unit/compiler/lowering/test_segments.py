"""Cutting a graph around operators that only NumPy computes: the pieces, the steps, and the numbers of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from softnpu.compiler.interface import model_info
from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.lowering.segments import is_host, programs_of
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Shapes
from softnpu.compiler.write import write
from softnpu.executor import choose
from softnpu.executor.engines.base import Place, view
from softnpu.graph.ir import Graph, Output, Value
from softnpu.graph.om import Om
from tests.unit.compiler.onnx_graphs import load, model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def start(**inputs: tuple[int, ...]) -> Graph:
    graph = Graph("g", {"": 18}, framework=3)
    for name, shape in inputs.items():
        graph.data_node(name, 0, shape)
    return graph


def op(graph: Graph, kind: str, *inputs: Value | None, **attrs: Any) -> Value:
    node = graph.op(kind, list(inputs), **attrs)
    infer_node(graph, node)
    return node.output


def run(graph: Graph, folder: Path, **feeds: Array) -> list[Array]:
    """Write the model, open it as a program would, run it."""
    info = model_info.describe_model(graph, Shapes())
    path = folder / "m.om"
    write(graph, info, path, Options({"soc_version": "Ascend310P3"}), check=True)
    source = Om.open(path)
    engine = choose.open_model(source, source.info())
    arrays = [np.ascontiguousarray(feeds[node.name]) for node in graph.inputs]
    inputs = [
        Place(node.output.name, node.output.dtype, array.shape, int(array.ctypes.data))
        for node, array in zip(graph.inputs, arrays, strict=True)
    ]
    results = [np.empty(output.value.shape, np.float32) for output in graph.outputs]
    outputs = [
        Place(output.value.name, 0, array.shape, int(array.ctypes.data))
        for output, array in zip(graph.outputs, results, strict=True)
    ]
    engine.plan(inputs, outputs).run()
    copies = [view(target).copy() for target in outputs]
    engine.close()
    return copies


def finish(graph: Graph, *values: Value) -> Graph:
    graph.outputs += [Output(value, f"{value.producer.name if value.producer else ''}:0") for value in values]
    graph.verify()
    return graph


def data(graph: Graph, index: int = 0) -> Value:
    return graph.inputs[index].output


def well_conditioned(*shape: int) -> Array:
    return (RNG.standard_normal(shape) * 0.1 + 2 * np.eye(shape[-1])).astype(np.float32)


def test_who_needs_numpy() -> None:
    graph = start(x=(3, 3))
    inverse, relu = op(graph, "MatrixInverse", data(graph)), op(graph, "Relu", data(graph))
    assert inverse.producer is not None and is_host(inverse.producer)
    assert relu.producer is not None and not is_host(relu.producer)
    assert not is_host(graph.inputs[0])


def test_a_graph_in_one_piece(tmp_path: Path) -> None:
    graph = load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"]), tmp_path)
    programs, steps = programs_of(graph)
    assert len(programs) == 1 and steps == []


def test_numpy_in_the_middle(tmp_path: Path) -> None:
    graph = start(x=(4, 3, 3))
    before = op(graph, "Neg", data(graph))
    middle = op(graph, "MatrixInverse", before)
    after = op(graph, "Exp", middle)
    finish(graph, after)
    programs, steps = programs_of(graph)
    assert len(programs) == 2
    assert [step.get("type", "program") for step in steps] == ["program", "MatrixInverse", "program"]
    assert steps[0]["inputs"] == ["x"] and steps[0]["outputs"] == [before.name]
    assert steps[2]["inputs"] == [middle.name] and steps[2]["outputs"] == [after.name]
    x = well_conditioned(4, 3, 3)
    (computed,) = run(graph, tmp_path, x=x)
    np.testing.assert_allclose(computed, np.exp(np.linalg.inv(-x.astype(np.float64))), rtol=1e-4)


def test_values_that_jump_over_the_cut(tmp_path: Path) -> None:
    """A value of the first piece, an input and a result of NumPy are all used at the end, and are outputs as well."""
    graph = start(x=(3, 3), y=(3, 3))
    early = op(graph, "Add", data(graph), data(graph, 1))
    middle = op(graph, "MatrixInverse", early)
    late = op(graph, "Mul", op(graph, "Sub", middle, early), data(graph, 1))
    finish(graph, late, middle, early)
    x, y = well_conditioned(3, 3), RNG.standard_normal((3, 3)).astype(np.float32) * 0.1
    computed = run(graph, tmp_path, x=x, y=y)
    total = (x + y).astype(np.float64)
    np.testing.assert_allclose(computed[2], total, rtol=1e-6)
    np.testing.assert_allclose(computed[1], np.linalg.inv(total), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(computed[0], (np.linalg.inv(total) - total) * y, rtol=1e-3, atol=1e-5)


def test_a_graph_of_numpy_operators_alone_runs(tmp_path: Path) -> None:
    graph = start(x=(3, 3))
    finish(graph, op(graph, "MatrixInverse", data(graph)))
    programs, steps = programs_of(graph)
    assert len(steps) == 1 and steps[0]["type"] == "MatrixInverse"
    if programs:
        x = well_conditioned(3, 3)
        np.testing.assert_allclose(run(graph, tmp_path, x=x)[0], np.linalg.inv(x), rtol=1e-4, atol=1e-5)


def test_two_numpy_operators_one_after_the_other(tmp_path: Path) -> None:
    graph = start(x=(3, 3))
    first = op(graph, "MatrixInverse", op(graph, "Neg", data(graph)))
    second = op(graph, "MatrixInverse", first)
    finish(graph, op(graph, "Neg", second))
    _, steps = programs_of(graph)
    assert [step.get("type", "program") for step in steps] == ["program", "MatrixInverse", "MatrixInverse", "program"]
    x = well_conditioned(3, 3)
    np.testing.assert_allclose(run(graph, tmp_path, x=x)[0], x, rtol=1e-3, atol=1e-4)


def test_branches_of_both_kinds_are_gathered(tmp_path: Path) -> None:
    """Engine operators that do not wait for NumPy run in one piece, however the nodes are ordered."""
    graph = start(x=(3, 3), y=(3, 3))
    inverse = op(graph, "MatrixInverse", data(graph))
    side = op(graph, "Exp", data(graph, 1))
    other = op(graph, "MatrixInverse", side)
    finish(graph, op(graph, "Add", inverse, other), side)
    programs, steps = programs_of(graph)
    assert len(programs) == 2 and [step.get("type", "") for step in steps].count("MatrixInverse") == 2
    x, y = well_conditioned(3, 3), well_conditioned(3, 3)
    computed = run(graph, tmp_path, x=x, y=y)
    wanted = np.linalg.inv(x.astype(np.float64)) + np.linalg.inv(np.exp(y.astype(np.float64)))
    np.testing.assert_allclose(computed[0], wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(computed[1], np.exp(y), rtol=1e-5)


def test_constants_on_both_sides_of_a_cut(tmp_path: Path) -> None:
    graph = start(x=(3, 3))
    weight = graph.const(RNG.standard_normal((3, 3)).astype(np.float32), "weight")
    first = op(graph, "MatMulV2", data(graph), weight)
    middle = op(graph, "MatrixInverse", op(graph, "Add", first, graph.const(5 * np.eye(3, dtype=np.float32), "eye")))
    finish(graph, op(graph, "MatMulV2", middle, weight))
    x = well_conditioned(3, 3)
    assert weight.const is not None
    w = weight.const.array().astype(np.float64)
    wanted = np.linalg.inv(x @ w + 5 * np.eye(3)) @ w
    np.testing.assert_allclose(run(graph, tmp_path, x=x)[0], wanted, rtol=1e-3, atol=1e-4)


def test_a_constant_of_a_numpy_operator_travels_with_its_step(tmp_path: Path) -> None:
    graph = start(x=(3, 3))
    matrix = well_conditioned(3, 3)
    inverse = op(graph, "MatrixInverse", graph.const(matrix, "matrix"))
    finish(graph, op(graph, "Add", data(graph), inverse))
    _, steps = programs_of(graph)
    (step,) = (step for step in steps if step.get("type") == "MatrixInverse")
    np.testing.assert_array_equal(np.array(step["inputs"][0]["data"], np.float32).reshape(3, 3), matrix)
    x = RNG.standard_normal((3, 3)).astype(np.float32)
    np.testing.assert_allclose(run(graph, tmp_path, x=x)[0], x + np.linalg.inv(matrix), rtol=1e-4, atol=1e-5)


def test_layout_changes_keep_the_numbers(tmp_path: Path) -> None:
    """TransData to NC1HWC0 and back again, around an operator of the engine."""
    graph = start(x=(1, 20, 2, 3))
    data(graph).format = 0
    blocked = op(graph, "TransData", data(graph), src_format="NCHW", dst_format="NC1HWC0")
    assert blocked.shape == (1, 2, 2, 3, 16)
    finish(graph, op(graph, "Neg", blocked))
    x = RNG.standard_normal((1, 20, 2, 3)).astype(np.float32)
    padded = np.zeros((1, 32, 2, 3), np.float32)
    padded[:, :20] = x
    wanted = -padded.reshape(1, 2, 16, 2, 3).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(run(graph, tmp_path, x=x)[0], wanted)


def test_a_failure_in_numpy_has_the_operators_name(tmp_path: Path) -> None:
    graph = start(x=(3, 3))
    finish(graph, op(graph, "Neg", op(graph, "MatrixInverse", data(graph))))
    with pytest.raises(Exception, match="no inverse"):
        run(graph, tmp_path, x=np.zeros((3, 3), np.float32))
