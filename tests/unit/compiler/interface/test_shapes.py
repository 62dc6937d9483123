"""Shapes of the command line: the grammar, its error codes, and what they do to the inputs of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface.shapes import apply
from softnpu.compiler.options.shapes import Gears, Shapes, parse
from softnpu.graph.ir import Graph


@dataclass
class Texts:
    input_shape: str = ""
    input_shape_range: str = ""
    dynamic_batch_size: str = ""
    dynamic_image_size: str = ""
    dynamic_dims: str = ""
    input_format: str = "NCHW"


def shapes(text: str = "", **more: str) -> Shapes:
    return parse(Texts(text, **more))


def code(text: str = "", **more: str) -> str:
    with pytest.raises(AtcError) as caught:
        shapes(text, **more)
    assert caught.value.message and caught.value.cause and caught.value.solution
    return caught.value.code


# ---- fixed shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,3,224,224", {"a": [1, 3, 224, 224]}),
        ("a:1,3;b:4", {"a": [1, 3], "b": [4]}),
        ("a:1,3;b:4;", {"a": [1, 3], "b": [4]}),
        ("a: 1, 3 ; b:4", {"a": [1, 3], "b": [4]}),
        ("input:0:1,224,224,3", {"input:0": [1, 224, 224, 3]}),
        ("scalar:", {"scalar": []}),
        ("model/in~put:1,2", {"model/in~put": [1, 2]}),
    ],
)
def test_fixed_shapes_are_parsed(text: str, expected: dict[str, list[int]]) -> None:
    parsed = shapes(text)
    assert parsed.static == expected
    assert parsed.gears is None and not parsed.dynamic


def test_no_option_says_nothing() -> None:
    assert shapes() == Shapes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:0,3", "E10011"),
        ("a:-2,3", "E10011"),
        ("a:1.5,3", "E10002"),
        ("a:x,3", "E10002"),
        ("1,3", "E10002"),
        (":1,3", "E10002"),
        ("a:1;a:2", "E10002"),
        (f"a:{1 << 63}", "E10013"),
        ("a:" + "9" * 5000, "E10013"),
        ("a:1,,3", "E10014"),
        ("a:+1", "E10014"),
        ("a:1-2", "E10014"),
        ("a:1 2", "E10014"),
    ],
)
def test_faulty_shapes_are_refused(text: str, expected: str) -> None:
    assert code(text) == expected


# ---- ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1~10,3", {"a": [(1, 10), (3, 3)]}),
        ("a:-1,3;b:4", {"a": [(1, -1), (3, 3)], "b": [(4, 4)]}),
        ("x:0:1~2", {"x:0": [(1, 2)]}),
        ("a:9~2", {"a": [(9, 2)]}),
        ("a:-1;s:", {"a": [(1, -1)], "s": []}),
    ],
)
def test_ranges_are_parsed(text: str, expected: dict[str, list[tuple[int, int]]]) -> None:
    parsed = shapes(text)
    assert parsed.ranges == expected and parsed.dynamic and not parsed.static


def test_ranges_without_names() -> None:
    assert shapes("1~4,3,224,224;-1").unnamed_ranges == [[(1, 4), (3, 3), (224, 224), (224, 224)], [(1, -1)]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:4~-1", "E10048"),
        ("a:-3~4", "E10048"),
        ("a:1~", "E10048"),
        ("a:1~2~3", "E10048"),
        ("a:-1,0", "E10048"),
        ("a:-1;2,3", "E10048"),
        ("a:-1;a:2", "E10048"),
        ("a:-1,x", "E10002"),
    ],
)
def test_faulty_ranges_are_refused(text: str, expected: str) -> None:
    assert code(text) == expected


def test_the_older_option_takes_ranges_in_brackets() -> None:
    parsed = shapes(input_shape_range="a:[1~10,3,-1,-1];b:[5]")
    assert parsed.ranges == {"a": [(1, 10), (3, 3), (1, -1), (1, -1)], "b": [(5, 5)]}
    assert shapes(input_shape_range="[1~2,3],[4]").unnamed_ranges == [[(1, 2), (3, 3)], [(4, 4)]]
    assert shapes("a:1", input_shape_range="a:[2]").ranges == {"a": [(2, 2)]}


@pytest.mark.parametrize("text", ["a:1,2", "a:[1,2", "a", "[1][2]", "[1],", "a:[x]", "a:[1];a:[2]", ":[1]", "a:[2~-1]"])
def test_range_option_errors(text: str) -> None:
    assert code(input_shape_range=text) == "E10048"


# ---- gears -----------------------------------------------------------------------------------------------------------


def test_gears_are_parsed_with_their_shapes() -> None:
    parsed = shapes("a:-1,3;b:7", dynamic_batch_size="1,2,8")
    assert parsed.gears == Gears("batch", [[1], [2], [8]])
    assert parsed.static == {"a": [-1, 3], "b": [7]} and not parsed.dynamic
    assert shapes("a:1,3,-1,-1", dynamic_image_size="224,224;448,320").gears == Gears("hw", [[224, 224], [448, 320]])
    nhwc = shapes("a:1,-1,-1,3", dynamic_image_size="224,224;448,320", input_format="NHWC")
    assert nhwc.gears is not None and nhwc.gears.kind == "hw"
    dims = shapes("a:-1,77;b:-1,3,224,-1;s:", dynamic_dims="1,1,8;2,2,8;", input_format="ND")
    assert dims.gears == Gears("dims", [[1, 1, 8], [2, 2, 8]])


BATCH, IMAGE, DIMS = "a:-1,3", "a:1,3,-1,-1", "a:-1,-1"
MANY = [str(number) for number in range(1, 102)]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (BATCH, {"dynamic_batch_size": "1,2", "dynamic_image_size": "1,1;2,2"}, "E10009"),
        (BATCH, {"dynamic_batch_size": "1,2", "input_shape_range": "a:[1~2,3]"}, "E10009"),
        ("", {"dynamic_batch_size": "1,2"}, "E10004"),
        ("", {"dynamic_dims": "1;2"}, "E10004"),
        ("a:-1,1~4", {"dynamic_batch_size": "1,2"}, "E10040"),
        (BATCH, {"dynamic_batch_size": "4"}, "E10035"),
        (IMAGE, {"dynamic_image_size": "4,4"}, "E10035"),
        (DIMS, {"dynamic_dims": "4,4"}, "E10035"),
        (BATCH, {"dynamic_batch_size": ",".join(MANY)}, "E10036"),
        (DIMS, {"dynamic_dims": ";".join(f"{item},1" for item in MANY)}, "E10036"),
        (DIMS, {"dynamic_dims": "1,2;3"}, "E10037"),
        (BATCH, {"dynamic_batch_size": "0,1"}, "E10038"),
        (IMAGE, {"dynamic_image_size": "-1,4;4,4"}, "E10038"),
        (DIMS, {"dynamic_dims": "0,1;1,1"}, "E10038"),
        (BATCH, {"dynamic_batch_size": "2,1,2"}, "E10039"),
        (IMAGE, {"dynamic_image_size": "4,4;4,4"}, "E10039"),
        (BATCH, {"dynamic_batch_size": "1;2"}, "E10003"),
        (BATCH, {"dynamic_batch_size": "1,-2"}, "E10003"),
        (BATCH, {"dynamic_batch_size": "1,,2"}, "E10003"),
        ("a:1,-1", {"dynamic_batch_size": "1,2"}, "E10018"),
        ("a:1,3", {"dynamic_batch_size": "1,2"}, "E10031"),
        ("a:-1,3;s:", {"dynamic_batch_size": "1,2"}, "E10012"),
        ("a:-1,3,-1,-1", {"dynamic_image_size": "1,1;2,2"}, "E10019"),
        ("a:1,3,-1,8", {"dynamic_image_size": "1,1;2,2"}, "E10019"),
        ("a:1,-1,-1", {"dynamic_image_size": "1,1;2,2"}, "E10019"),
        (IMAGE, {"dynamic_image_size": "1,1;2,2", "input_format": "NHWC"}, "E10019"),
        (IMAGE, {"dynamic_image_size": "1,1;2,2", "input_format": "ND"}, "E10001"),
        ("a:1,3,8,8", {"dynamic_image_size": "1,1;2,2"}, "E10040"),
        (IMAGE, {"dynamic_image_size": "1,1;2"}, "E10020"),
        (IMAGE, {"dynamic_image_size": "1,1,1;2,2,2"}, "E10020"),
        (IMAGE, {"dynamic_image_size": "1,x;2,2"}, "E10020"),
        ("a:1,2", {"dynamic_dims": "1;2"}, "E10040"),
        (DIMS, {"dynamic_dims": "1;2"}, "E10045"),
        (DIMS, {"dynamic_dims": "1,2,3;2,3,4"}, "E10046"),
        (DIMS, {"dynamic_dims": "1,;2,3"}, "E10003"),
        (DIMS, {"dynamic_dims": "1,-1;2,3"}, "E10001"),
        (DIMS, {"dynamic_dims": "a,b;2,3"}, "E10001"),
        (BATCH, {"dynamic_batch_size": "1," + "9" * 30}, "E10013"),
        ("a:-2,3", {"dynamic_batch_size": "1,2"}, "E10011"),
    ],
)
def test_faulty_gears_are_refused(text: str, options: dict[str, str], expected: str) -> None:
    assert code(text, **options) == expected


def test_short_gears_say_how_to_write_them() -> None:
    with pytest.raises(AtcError) as caught:
        shapes("ids:-1,77;pixels:-1,3,224,224", dynamic_dims="1;2;4;8")
    assert '--dynamic_dims="1,1;2,2"' in caught.value.solution


# ---- the model -------------------------------------------------------------------------------------------------------


def model(**inputs: tuple[int, ...] | None) -> Graph:
    graph = Graph("model")
    for name, shape in inputs.items():
        graph.data_node(name, 0, shape)
    graph.op("Relu", [graph.inputs[0].output], "act")
    return graph


def apply_code(graph: Graph, text: str, **more: str) -> AtcError:
    with pytest.raises(AtcError) as caught:
        apply(graph, shapes(text, **more))
    return caught.value


def test_fixed_shapes_are_set_on_inputs() -> None:
    graph = model(a=(-1, 3, -1, -1), b=(2,))
    graph.inputs[0].output.words = ("n", "", "h", "w")
    apply(graph, shapes("a:1,3,8,8"))
    a, b = (node.output for node in graph.inputs)
    assert a.shape == (1, 3, 8, 8) and a.words == () and a.ranges == ()
    assert b.shape == (2,)


def test_apply_changes_a_fixed_batch() -> None:
    graph = model(a=(1, 3))
    apply(graph, shapes("a:8,3"))
    assert graph.inputs[0].output.shape == (8, 3)


def test_ranges_open_the_dims_of_an_input() -> None:
    graph = model(a=(-1, 3, -1), b=(2,))
    graph.inputs[0].output.words = ("n", "", "")
    apply(graph, shapes("a:1~8,3,-1"))
    a = graph.inputs[0].output
    assert a.shape == (-1, 3, -1)
    assert a.ranges == ((1, 8), (3, 3), (1, -1))
    assert a.words == ("n", "", "a_2")


def test_apply_ranges_in_order() -> None:
    graph = model(a=(-1, 3), b=(-1,))
    apply(graph, shapes("1~8,3;5~6"))
    assert [node.output.ranges for node in graph.inputs] == [((1, 8), (3, 3)), ((5, 6),)]
    assert apply_code(model(a=(-1,)), "1~2;3").code == "E10048"


def test_apply_fixed_ranges_are_static() -> None:
    graph = model(a=(-1, 3))
    apply(graph, shapes(input_shape_range="a:[2,3]"))
    value = graph.inputs[0].output
    assert value.shape == (2, 3) and value.static and value.ranges == () and value.words == ()


def test_apply_batch_gears() -> None:
    graph = model(a=(-1, 3), b=(-1, 5), c=(4,))
    apply(graph, shapes("a:-1,3;b:-1,5", dynamic_batch_size="1,2"))
    a, b, c = (node.output for node in graph.inputs)
    assert (a.shape, b.shape, c.shape) == ((-1, 3), (-1, 5), (4,))
    assert a.words == b.words == ("batch", "") and a.ranges == ()


def test_apply_image_gears() -> None:
    graph = model(a=(1, 3, -1, -1), b=(1, 3, -1, -1))
    apply(graph, shapes("a:1,3,-1,-1;b:1,3,-1,-1", dynamic_image_size="8,8;16,8"))
    assert [node.output.words for node in graph.inputs] == [("", "", "height", "width")] * 2


def test_apply_dims_gears_follow_the_inputs() -> None:
    graph = model(a=(-1, 3), b=(-1, -1))
    wanted = shapes("b:-1,-1;a:-1,3", dynamic_dims="1,64,1;2,128,2")
    apply(graph, wanted)
    assert wanted.gears == Gears("dims", [[1, 1, 64], [2, 2, 128]])
    a, b = (node.output for node in graph.inputs)
    assert a.words[0] == b.words[0] != b.words[1]


def test_names_that_are_no_inputs_are_told_with_near_ones() -> None:
    missing = apply_code(model(images=(1, 3)), "image:1,3")
    assert missing.code == "E10016" and "did you mean images?" in missing.message
    inner = apply_code(model(images=(1, 3)), "act:1,3")
    assert inner.code == "E10017" and "Relu" in inner.message and "images" in inner.solution
    assert apply_code(model(a=(1,)), "x:1~2").code == "E10016"


def test_tensorflow_names_may_have_their_index() -> None:
    graph = model(Input=(-1, 3))
    graph.framework = 3
    apply(graph, shapes("Input:0:1,3"))
    assert graph.inputs[0].output.shape == (1, 3)


def test_dims_that_do_not_fit() -> None:
    count = apply_code(model(a=(1, 3, 8, 8)), "a:1,3")
    assert count.code == "E10049" and "1,3,8,8" in count.message
    assert apply_code(model(a=(1, 3)), "a:-1").code == "E10049"
    outside = apply_code(model(a=(16, 3)), "a:1~8,3")
    assert outside.code == "E10050" and "1~8" in outside.message
    assert apply_code(model(a=(2, 3)), "a:4~8,3").code == "E10050"
    assert apply_code(model(a=(-1, 3)), "a:9~2,3").code == "E10048"
    graph = model(a=(8, 3))
    apply(graph, shapes("a:1~8,3"))
    assert graph.inputs[0].output.shape == (-1, 3)


def test_unknown_dims_name_the_option_to_add() -> None:
    graph = model(images=(-1, 3, -1, -1), ids=(-1, 77), known=(2,))
    graph.inputs[0].output.words = ("batch", "", "height", "width")
    error = apply_code(graph, "")
    assert error.code == "E10001"
    assert "[images]" in error.message and "batch,3,height,width" in error.message
    assert '--input_shape="images:1,3,224,224;ids:1,77"' in error.message
    again = apply_code(graph, "ids:4,77")
    assert '--input_shape="ids:4,77;images:1,3,224,224"' in again.message


def test_the_suggestion_can_be_used() -> None:
    graph = model(images=(-1, 3, -1, -1), ids=(-1, -1))
    text = apply_code(graph, "").message.partition('--input_shape="')[2].partition('"')[0]
    apply(graph, shapes(text))
    assert [node.output.shape for node in graph.inputs] == [(1, 3, 224, 224), (1, 128)]


def test_an_input_of_unknown_rank_needs_a_shape() -> None:
    error = apply_code(model(a=None), "")
    assert error.code == "E10001" and "how many dims" in error.message
    graph = model(a=None)
    apply(graph, shapes("a:2,3"))
    assert graph.inputs[0].output.shape == (2, 3)
