"""AIPP put into a graph: what becomes of the inputs, every refusal, and results of whole models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.compiler.lowering.lower import lower
from softnpu.compiler.passes.aipp import fold
from softnpu.compiler.passes.aipp.config import AippConfig
from softnpu.compiler.passes.aipp.insert import Setting, describe_input, insert
from softnpu.graph import aipp
from softnpu.graph.aipp import AippParams
from softnpu.graph.inout import AippEntry, TensorInfo
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import load, model, original

RGB = AippParams(3, mean=(104, 117, 123, 0), var_reci=(0.017, 0.018, 0.019, 1.0))
RNG = np.random.default_rng(5)
WEIGHT = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
BIAS = RNG.normal(size=4).astype(np.float32)


def graph_of(folder: Path, shape: list[Any], pads: int = 1, nodes: list[Any] | None = None) -> tuple[Graph, Any]:
    nodes = nodes or [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[pads] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    proto = model(nodes, {"x": shape}, ["y"], {"w": WEIGHT, "b": BIAS})
    graph = load(proto, folder)
    graph.inputs[0].output.format = 0
    return graph, proto


def run(graph: Graph, images: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of a graph; names are numbered, since two operators of a node must not share one."""
    from tests.unit.compiler import onnx_graphs

    low = lower(graph)
    for index, node in enumerate(low.nodes):
        node["name"] = str(index)
    from softnpu.compiler.lowering.infer import encode_model
    from softnpu.graph.onnx_def import make_tensor, make_value_info

    inputs = [make_value_info(node.output.name, node.output.dtype, node.output.shape) for node in graph.inputs]
    constants = [make_tensor(node.output.name, node.data) for node in graph.nodes if node.data is not None]
    constants += [make_tensor(name, constant) for name, constant in low.constants.items()]
    outputs = [make_value_info(output.value.name, output.value.dtype, None) for output in graph.outputs]
    data = encode_model(graph, low.nodes, inputs, outputs, constants, low.domains)
    return onnx_graphs._session(data).run(None, {graph.inputs[0].output.name: images})[0]


def prepared(images: np.ndarray) -> np.ndarray:
    """RGB's normalisation as an application would write it."""
    factor = np.array(RGB.var_reci[:3], np.float16).astype(np.float32)
    return np.ascontiguousarray(
        ((images.astype(np.float32) - np.array([104, 117, 123], np.float32)) * factor).transpose(0, 3, 1, 2)
    )


def test_static_aipp_prepares_the_picture(tmp_path: Path) -> None:
    graph, proto = graph_of(tmp_path, [2, 3, 8, 10])
    insert(graph, [AippConfig(params=RGB)])
    graph.verify()
    (data,) = graph.inputs
    assert (data.name, data.output.name, data.output.dtype, data.output.format, data.output.shape) == (
        "x",
        "x_source",
        4,
        1,
        (2, 8, 10, 3),
    )
    (step,) = aipp.find(graph)
    assert (step.node.name, step.node.type, step.node.output.shape, step.node.output.dtype) == (
        "x_0_aipp",
        "Aipp",
        (2, 3, 8, 10),
        0,
    )
    assert (step.params.src_w, step.params.src_h) == (10, 8)
    images = RNG.integers(0, 256, (2, 8, 10, 3), np.uint8)
    assert np.array_equal(run(graph, images), original(proto, {"x": prepared(images)})[0])
    infer_graph(graph)
    assert step.node.output.shape == (2, 3, 8, 10)


def test_static_yuv_with_crop_and_description(tmp_path: Path) -> None:
    graph, _ = graph_of(tmp_path, [1, 3, 8, 10])
    params = AippParams(
        1, src_w=16, src_h=12, crop=True, crop_start_w=2, crop_w=8, crop_h=6, padding=True, left=2, top=2
    )
    insert(graph, [AippConfig(params=params)])
    (data,) = graph.inputs
    assert data.output.shape == (1, 18, 16, 1) and data.output.bytes() == 12 * 16 * 3 // 2
    tensor, entries = TensorInfo("x", 4, 1, [1, 18, 16, 1], 288), {}  # type: ignore[var-annotated]
    describe_input(graph, data, tensor, entries, [])
    assert (tensor.dims, tensor.dims_v2) == ([1, 12, 16, 3], [1, 18, 16, 1])
    assert entries["x"].type == 1
    assert entries["x"].info["outDims"][0]["srcSize"] == 288


def test_batch_gears_leave_the_batch_open(tmp_path: Path) -> None:
    graph, proto = graph_of(tmp_path, ["n", 3, 8, 10])
    insert(graph, [AippConfig(params=RGB)], Setting(gears="batch", max_batch=4))
    assert graph.inputs[0].output.shape == (-1, 8, 10, 3)
    images = RNG.integers(0, 256, (3, 8, 10, 3), np.uint8)
    assert np.array_equal(run(graph, images), original(proto, {"x": prepared(images)})[0])


def test_image_gears_leave_the_sides_open(tmp_path: Path) -> None:
    graph, proto = graph_of(tmp_path, [1, 3, "h", "w"])
    insert(graph, [AippConfig(params=RGB)], Setting(gears="hw"))
    assert graph.inputs[0].output.shape == (1, -1, -1, 3)
    for size in ((8, 10), (6, 6)):
        images = RNG.integers(0, 256, (1, *size, 3), np.uint8)
        assert np.array_equal(run(graph, images), original(proto, {"x": prepared(images)})[0])


def test_dynamic_aipp_is_a_second_input(tmp_path: Path) -> None:
    graph, _ = graph_of(tmp_path, [2, 3, 8, 10])
    insert(graph, [AippConfig(max_src_image_size=5000)])
    graph.verify()
    data, block = graph.inputs
    assert (data.output.dtype, data.output.shape, data.attrs["max_src_image_size"]) == (4, (2, -1, -1, -1), 5000)
    assert (block.type, block.name, block.output.shape, block.output.dtype) == (
        "AippData",
        "ascend_dynamic_aipp_data",
        (64 + 96 * 2,),
        4,
    )
    (config,) = aipp.find(graph)
    assert not config.static and config.block is block and config.node.output.shape == (2, 3, 8, 10)
    assert [node.type for node in lower(graph).host] == ["AippDynamic"]
    infer_graph(graph)
    assert graph.outputs[0].value.shape == (2, 4, 8, 10)
    tensor, entries = TensorInfo("x", 4, 1, [2, -1, -1, -1], 0, ranges=[(2, 2)]), {}  # type: ignore[var-annotated]
    describe_input(graph, data, tensor, entries, [])
    describe_input(graph, block, tensor, entries, [])
    assert (tensor.size, tensor.ranges) == (5000, [])
    assert entries["x"].feature == "x" and entries["ascend_dynamic_aipp_data"] == AippEntry(3)


def test_two_dynamic_inputs(tmp_path: Path) -> None:
    proto = model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": [1, 3, 4, 4], "b": [1, 3, 4, 4]}, ["y"])
    graph = load(proto, tmp_path)
    insert(graph, [AippConfig(name="b", max_src_image_size=9), AippConfig(name="a", max_src_image_size=9)])
    assert [node.name for node in graph.inputs] == [
        "a",
        "b",
        "ascend_dynamic_aipp_data",
        "ascend_dynamic_aipp_data_a_1_aipp",
    ]
    assert [(step.data.name, step.block.name) for step in aipp.find(graph) if step.block] == [
        ("a", "ascend_dynamic_aipp_data_a_1_aipp"),
        ("b", "ascend_dynamic_aipp_data"),
    ]


GREY = (76, 150, 30, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("config", "setting", "code", "word"),
    [
        (AippConfig(rank=1, params=RGB), Setting(), "E10052", "related_input_rank is 1"),
        (AippConfig(name="z", params=RGB), Setting(), "E10052", "'z' is no input"),
        (AippConfig(params=RGB), Setting(gears="dims"), "E10001", "dynamic_dims"),
        (AippConfig(params=RGB), Setting(fp16_inputs=frozenset({"x"})), "E10034", r"\[x\]"),
        (
            AippConfig(params=replace(RGB, src_w=8, src_h=8)),
            Setting(),
            "E70014",
            "width after crop and padding is 8, .* takes 10",
        ),
        (
            AippConfig(params=replace(RGB, src_w=10, src_h=8, padding=True, top=1)),
            Setting(),
            "E70014",
            "height .* is 9",
        ),
        (AippConfig(params=replace(RGB, input_format=2)), Setting(), "E81012", "4 channels of XRGB8888_U8"),
        (AippConfig(params=AippParams(4)), Setting(), "E81012", "1 channels"),
        (AippConfig(params=replace(RGB, src_w=10, src_h=8)), Setting(gears="hw"), "E10052", "src_image_size must be 0"),
        (
            AippConfig(params=AippParams(1, src_w=16, src_h=12, crop=True, crop_start_w=1, crop_w=10, crop_h=8)),
            Setting(family="310P"),
            "E70014",
            "even",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    tmp_path: Path, config: AippConfig, setting: Setting, code: str, word: str
) -> None:
    graph, _ = graph_of(tmp_path, [1, 3, 8, 10])
    with pytest.raises(AtcError, match=word) as caught:
        insert(graph, [config], setting)
    assert caught.value.code == code


def test_odd_crop_where_the_chip_can(tmp_path: Path) -> None:
    graph, _ = graph_of(tmp_path, [1, 3, 8, 10])
    params = AippParams(1, src_w=16, src_h=12, crop=True, crop_start_w=1, crop_w=10, crop_h=8)
    insert(graph, [AippConfig(params=params)], Setting(family="910B"))
    assert run(graph, np.zeros((1, 18, 16, 1), np.uint8)).shape == (1, 4, 8, 10)


def test_the_width_of_a_chip(tmp_path: Path) -> None:
    graph, _ = graph_of(tmp_path, [1, 3, 8, 1100])
    with pytest.raises(AtcError, match="1100 is more than"):
        insert(graph, [AippConfig(params=RGB)], Setting(family="310"))


def test_shapes_that_are_no_pictures(tmp_path: Path) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [3, 8]}, ["y"])
    with pytest.raises(AtcError, match="four dims"):
        insert(load(proto, tmp_path), [AippConfig(params=RGB)])


def test_one_channel_takes_grey(tmp_path: Path) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 1, 4, 4]}, ["y"])
    graph = load(proto, tmp_path)
    insert(graph, [AippConfig(params=AippParams(3, csc=True, matrix=GREY))])
    images = RNG.integers(0, 256, (1, 4, 4, 3), np.uint8)
    wanted = (images.astype(np.int64) @ np.array(GREY[:3]) >> 8).astype(np.float32)[:, None]
    assert np.array_equal(run(graph, images), wanted)


def test_an_input_that_is_an_output_too(tmp_path: Path) -> None:
    proto = model([helper.make_node("Identity", ["x"], ["y"])], {"x": [1, 3, 4, 4]}, ["y"])
    graph = load(proto, tmp_path)
    insert(graph, [AippConfig(params=RGB)])
    images = RNG.integers(0, 256, (1, 4, 4, 3), np.uint8)
    assert np.array_equal(run(graph, images), prepared(images))


@pytest.mark.parametrize(("pads", "params", "folds"), [(0, RGB, 1), (1, RGB, 0), (1, replace(RGB, mean=(0,) * 4), 1)])
def test_folding_into_a_convolution(tmp_path: Path, pads: int, params: AippParams, folds: int) -> None:
    graph, _ = graph_of(tmp_path, [1, 3, 8, 10], pads)
    insert(graph, [AippConfig(params=params)])
    images = RNG.integers(0, 256, (1, 8, 10, 3), np.uint8)
    before = run(graph, images)
    assert fold.run(graph) == (folds, folds)
    graph.verify()
    np.testing.assert_allclose(run(graph, images), before, rtol=1e-5, atol=1e-4)
    (step,) = aipp.find(graph)
    assert step.params == params.resolved(8, 10)
    assert AippParams.from_json(step.node.attrs["aipp"]).var_reci == ((1.0,) * 4 if folds else params.var_reci)


def test_no_folding_where_somebody_else_looks(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("ReduceMax", ["x"], ["m"]),
        helper.make_node("Add", ["c", "m"], ["y"]),
    ]
    graph, _ = graph_of(tmp_path, [1, 3, 8, 10], nodes=nodes)
    insert(graph, [AippConfig(params=RGB)])
    assert fold.run(graph) == (0, 0)
