"""The ends of a model: chosen outputs, their types and layouts, fp16 inputs."""

from __future__ import annotations

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface.outputs import check_aipp, output_name, parse_output_type, select
from softnpu.compiler.options.rows import Options
from softnpu.graph.ir import Graph, Node, Output, Value

FLOAT, FLOAT16, UINT8, INT32 = 0, 1, 4, 3


def model(framework: int = 5) -> Graph:
    """image → conv (tensor t1) → split (t2, t3) → act (t4); the output is t4."""
    graph = Graph("model", framework=framework)
    data = graph.data_node("image", FLOAT, (1, 3, 8, 8), 0)
    current = data.output
    for name, outputs in (("conv", ["t1"]), ("split", ["t2", "t3"]), ("act", ["t4"])):
        graph.reserve([name, *outputs])
        values = [Value(name, FLOAT, (1, 20, 8, 8), 0) for name in outputs]
        graph.add(Node(name, name.title(), [current], values, origin=[name]))
        current = values[0]
    graph.outputs = [Output(current, "act:0:t4")]
    return graph


def chosen(graph: Graph, **texts: str) -> list[tuple[str, int]]:
    select(graph, Options({"framework": graph.framework, **texts}))
    graph.verify()
    return [(output.name, output.value.dtype) for output in graph.outputs]


def failure(graph: Graph, **texts: str) -> AtcError:
    with pytest.raises(AtcError) as caught:
        select(graph, Options({"framework": graph.framework, **texts}))
    return caught.value


# ---- out_nodes -------------------------------------------------------------------------------------------------------


def test_nothing_given_changes_nothing() -> None:
    graph = model()
    assert chosen(graph) == [("act:0:t4", FLOAT)]
    assert [node.type for node in graph.nodes] == ["Data", "Conv", "Split", "Act"]


def test_nodes_with_index() -> None:
    graph = model()
    assert chosen(graph, out_nodes="split:1;conv:0") == [("split:1:t3", FLOAT), ("conv:0:t1", FLOAT)]
    assert graph.node("act") is None


def test_outputs_may_be_named_by_their_tensors() -> None:
    assert chosen(model(), out_nodes="t3;t1") == [("split:1:t3", FLOAT), ("conv:0:t1", FLOAT)]
    assert chosen(model(0), out_nodes="t4;") == [("act:0:t4", FLOAT)]


def test_tensor_names_with_a_colon() -> None:
    graph = model()
    next(value for value in graph.values() if value.name == "t4").name = "Identity:0"
    assert chosen(graph, out_nodes="Identity:0") == [("act:0:Identity:0", FLOAT)]


def test_nodes_that_stand_for_others() -> None:
    graph = model()
    node = graph.node("conv")
    assert node is not None
    node.origin = ["Conv_1", "Relu_2"]
    assert chosen(graph, out_nodes="Relu_2:0") == [("conv:0:t1", FLOAT)]


def test_names_of_tensorflow() -> None:
    graph = model(3)
    assert chosen(graph, out_nodes="split:1") == [("split:1", FLOAT)]
    assert output_name(graph, graph.outputs[0].value) == "split:1"


@pytest.mark.parametrize(
    ("framework", "text", "expected"),
    [
        (5, "conv:0;t2", "E10001"),
        (5, "conv:x", "E10001"),
        (5, "conv:0;conv:0", "E10001"),
        (3, "conv", "E10001"),
        (5, "cov:0", "E10016"),
        (3, "cov:0", "E10016"),
        (0, "cov:0", "E11017"),
        (0, "top", "E11017"),
        (5, "split:2", "E10003"),
        (5, "t9", "E19999"),
    ],
)
def test_out_nodes_errors(framework: int, text: str, expected: str) -> None:
    assert failure(model(framework), out_nodes=text).code == expected


def test_unknown_names_show_near_ones() -> None:
    assert "did you mean conv?" in failure(model(), out_nodes="cov:0").message
    assert "t4" in failure(model(), out_nodes="t9").message


# ---- output_type -----------------------------------------------------------------------------------------------------


def test_one_type_for_all() -> None:
    graph = model()
    assert chosen(graph, output_type="FP16", out_nodes="conv:0;act:0") == [
        ("conv:0:t1", FLOAT16),
        ("act:0:t4", FLOAT16),
    ]
    last = graph.outputs[0].value.producer
    assert last is not None and last.type == "Cast" and last.attrs == {"dst_type": FLOAT16}
    assert graph.outputs[0].value.shape == (1, 20, 8, 8) and graph.outputs[0].value.format == 0


def test_the_type_it_has_already() -> None:
    graph = model()
    chosen(graph, output_type="FP32")
    assert all(node.type != "Cast" for node in graph.nodes)


def test_types_per_output() -> None:
    outputs = chosen(model(), output_type="conv:0:UINT8", out_nodes="conv:0;split:1")
    assert outputs == [("conv:0:t1", UINT8), ("split:1:t3", FLOAT)]
    assert parse_output_type("a:0:FP16;b:1:INT32") == (None, {"a:0": FLOAT16, "b:1": INT32})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"output_type": "FLOAT"}, "E10001"),
        ({"output_type": "conv:0:FP16"}, "E10001"),
        ({"output_type": "conv:0:FP99", "out_nodes": "conv:0"}, "E10001"),
        ({"output_type": "conv:0:FP16;conv:0:FP32", "out_nodes": "conv:0"}, "E10001"),
        ({"output_type": ":FP16", "out_nodes": "conv:0"}, "E10001"),
        ({"output_type": "HIF8"}, "E10055"),
    ],
)
def test_output_type_errors(given: dict[str, str], expected: str) -> None:
    assert failure(model(), **given).code == expected


# ---- inputs ----------------------------------------------------------------------------------------------------------


def test_inputs_may_come_as_fp16() -> None:
    graph = model()
    chosen(graph, input_fp16_nodes="image")
    data, cast, conv = graph.nodes[:3]
    assert data.output.dtype == FLOAT16 and cast.output.name == "image"
    assert cast.type == "Cast" and cast.attrs == {"dst_type": FLOAT} and cast.inputs == [data.output]
    assert cast.output.dtype == FLOAT and conv.inputs == [cast.output]


def test_an_fp16_input_stays() -> None:
    graph = model()
    graph.inputs[0].output.dtype = FLOAT16
    chosen(graph, input_fp16_nodes="image")
    assert len(graph.nodes) == 4


def test_fp16_input_errors() -> None:
    assert failure(model(), input_fp16_nodes="picture").code == "E10016"
    assert failure(model(), input_fp16_nodes="conv").code == "E10017"
    options = Options({"input_fp16_nodes": "image"})
    check_aipp(options, ["other"])
    with pytest.raises(AtcError, match="E10034"):
        check_aipp(options, ["image"])


# ---- layouts ---------------------------------------------------------------------------------------------------------


def test_input_as_nc1hwc0() -> None:
    graph = model()
    chosen(graph, input_fp16_nodes="image", is_input_adjust_hw_layout="true")
    data, back, cast = graph.nodes[:3]
    assert (data.output.shape, data.output.format, data.output.dtype) == ((1, 1, 8, 8, 16), 3, FLOAT16)
    assert (back.type, back.attrs) == ("TransData", {"src_format": "NC1HWC0", "dst_format": "NCHW"})
    assert (back.output.shape, back.output.format) == ((1, 3, 8, 8), 0)
    assert cast.output.shape == (1, 3, 8, 8) and cast.output.dtype == FLOAT


def test_output_as_nc1hwc0() -> None:
    graph = model()
    chosen(graph, out_nodes="act:0;conv:0", is_output_adjust_hw_layout="true,false")
    first, second = (output.value for output in graph.outputs)
    assert (first.shape, first.format, first.dtype) == ((1, 2, 8, 8, 16), 3, FLOAT16)
    assert second.format == 0 and second.dtype == FLOAT
    assert first.producer is not None and first.producer.attrs == {"src_format": "NCHW", "dst_format": "NC1HWC0"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"is_input_adjust_hw_layout": "yes", "input_fp16_nodes": "image"}, "E10005"),
        ({"is_output_adjust_hw_layout": "1", "out_nodes": "act:0"}, "E10005"),
        ({"is_input_adjust_hw_layout": "true,true", "input_fp16_nodes": "image"}, "E10001"),
        ({"is_output_adjust_hw_layout": "true"}, "E10001"),
    ],
)
def test_layouts_that_cannot_be_are_refused(given: dict[str, str], expected: str) -> None:
    assert failure(model(), **given).code == expected


def test_only_images_have_the_layout() -> None:
    graph = model()
    graph.inputs[0].output.shape = (1, 3)
    assert failure(graph, input_fp16_nodes="image", is_input_adjust_hw_layout="true").code == "E10001"
    graph = model()
    graph.inputs[0].output.shape = (1, -1, 8, 8)
    assert failure(graph, input_fp16_nodes="image", is_input_adjust_hw_layout="true").code == "E10001"


def test_constants_can_be_outputs() -> None:
    graph = model()
    graph.const(np.zeros(3, np.float32), "weights")
    assert chosen(graph, out_nodes="weights:0") == [("weights:0:weights", FLOAT)]
