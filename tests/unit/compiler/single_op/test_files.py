"""Single-operator files: what they may say, what the models are called, what the graphs compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.evaluate import session
from softnpu.compiler.lowering.lower import lower
from softnpu.compiler.single_op.description import SingleOp, Tensor
from softnpu.compiler.single_op.files import read
from softnpu.compiler.single_op.graph import to_graph
from softnpu.graph.ir import Graph

Array = np.ndarray[Any, Any]


def desc(shape: list[int], dtype: str = "float", form: str = "ND", **more: Any) -> dict[str, Any]:
    return {"format": form, "shape": shape, "type": dtype, **more}


def add(**more: Any) -> dict[str, Any]:
    return {"op": "Add", "input_desc": [desc([3, 3], "int32")] * 2, "output_desc": [desc([3, 3], "int32")], **more}


def write(folder: Path, content: Any) -> Path:
    path = folder / "ops.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read_one(folder: Path, content: Any) -> SingleOp:
    operators = read(write(folder, [content]))
    assert len(operators) == 1
    return operators[0]


def run(graph: Graph, *arrays: Array) -> list[Array]:
    lowered = lower(graph)
    assert not lowered.host
    constants = [node.output for node in graph.nodes if node.type == "Const"]
    runner = session(
        graph, lowered, [node.output for node in graph.inputs], [output.value for output in graph.outputs], constants
    )
    feeds = {node.output.name: array for node, array in zip(graph.inputs, arrays, strict=True)}
    return [np.asarray(array) for array in runner.run([output.value.name for output in graph.outputs], feeds)]


# ---- names -----------------------------------------------------------------------------------------------------------


def test_the_name_of_the_reference(tmp_path: Path) -> None:
    assert read_one(tmp_path, add()).file_name(0) == "0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om"


def test_a_given_name_is_used_when_it_is_a_file_name(tmp_path: Path) -> None:
    assert read_one(tmp_path, add(name="my.add-1")).file_name(4) == "my.add-1.om"
    assert read_one(tmp_path, add(name="a" * 200)).file_name(0) == "a" * 128 + ".om"
    for bad in ("../x", "a b", "a/b", ""):
        assert read_one(tmp_path, add(name=bad)).file_name(2).startswith("2_Add_3_2_")


def test_long_names_are_cut(tmp_path: Path) -> None:
    long = {"op": "Add", "input_desc": [desc([1000] * 20)] * 2, "output_desc": [desc([1000] * 20)]}
    assert len(read_one(tmp_path, long).file_name(0)) == 128 + len(".om")


def test_absent_inputs_and_unknown_dims_in_names(tmp_path: Path) -> None:
    row = {
        "op": "LayerNorm",
        "input_desc": [desc([-1, 8], "float16"), {"format": "RESERVED", "type": "UNDEFINED", "shape": []}],
        "output_desc": [desc([-2], "FP16")],
    }
    assert read_one(tmp_path, row).file_name(1) == "1_LayerNorm_1_2_-1_8_28_40_1_2_-2.om"


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_one_object_counts_as_a_list(tmp_path: Path) -> None:
    assert [operator.op for operator in read(write(tmp_path, add()))] == ["Add"]
    assert [operator.op for operator in read(write(tmp_path, [add(), add(op="Sub")]))] == ["Add", "Sub"]


def test_everything_a_tensor_may_say(tmp_path: Path) -> None:
    row = {
        "op": "Concat",
        "input_desc": [
            desc([-1, 4], shape_range=[[1, 8]], dynamic_input="x", name="left"),
            desc([2, 4], "Float32", "nd", dynamic_input="x"),
            desc([2], "int64", is_const=True, const_value=[3, -4]),
        ],
        "output_desc": [desc([-1, 4])],
    }
    first, second, third = read_one(tmp_path, row).inputs
    assert first == Tensor(0, 2, (-1, 4), "left", "x", ((1, 8), (4, 4)))
    assert (second.dtype, second.format) == (0, 2)
    assert third.const is not None
    np.testing.assert_array_equal(third.const.array(), np.array([3, -4]))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("bool", True, True), ("int", 5, 5), ("float", 2, 2.0), ("string", "a", "a"), ("list_int", [1, 2], [1, 2]),
        ("list_float", [1, 2.5], [1.0, 2.5]), ("list_bool", [True], [True]), ("list_string", ["a"], ["a"]),
        ("list_list_int", [[1], [2, 3]], [[1], [2, 3]]), ("data_type", "float16", 1), ("data_type", "INT32", 3),
    ],
)  # fmt: skip
def test_attributes_get_their_type(tmp_path: Path, kind: str, value: Any, expected: Any) -> None:
    parsed = read_one(tmp_path, add(attr=[{"name": "a", "type": kind, "value": value}])).attrs["a"]
    assert parsed == expected
    assert type(parsed) is type(expected)


TENSOR_MISTAKES: list[Any] = [
    {"shape": [1], "type": "int32"}, {"format": "ND", "type": "int32"}, {"format": "ND", "shape": [1]}, desc([1], "int33"),
    desc([1], "int32", "NDX"), desc([1.5], "int32"), desc([-3], "int32"), desc([True], "int32"), 7, desc([1], form="RESERVED"),
    desc([-1, -1], shape_range=[[1, 2]] * 3), desc([-1], shape_range=[[3, 2]]), desc([-1], shape_range=7), desc([1], name=3),
    desc([2], "int32", is_const=True, const_value=[1]), desc([1], "int32", is_const=True, const_value=["a"]),
    desc([1], "int8", is_const=True), desc([1 << 70], "int8"), desc([1] * 200),
]  # fmt: skip


@pytest.mark.parametrize("row", TENSOR_MISTAKES, ids=range(len(TENSOR_MISTAKES)))
def test_bad_tensors_are_named(tmp_path: Path, row: Any) -> None:
    with pytest.raises(AtcError, match=r"\[Add\]: input 1") as caught:
        read_one(tmp_path, add(input_desc=[desc([3], "int32"), row]))
    assert caught.value.code == "E10027"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"input_desc": []}, "E10026"), (add(op=""), "E10026"), (add(op=3), "E10026"), (add(name=3), "E10023"), (7, "E10023"),
        (add(compile_flag=2), "E10023"), (add(input_desc={}), "E10023"), (add(attr={}), "E10023"), (add(output_desc=[]), "E10028"),
        (add(attr=[{"type": "int", "value": 1}]), "E10029"), (add(attr=[7]), "E10029"),
        (add(attr=[{"name": "a", "type": "int", "value": True}]), "E10030"), (add(attr=[{"name": "a", "type": "int", "value": 1.5}]), "E10030"),
        (add(attr=[{"name": "a", "type": "integer", "value": 1}]), "E10030"), (add(attr=[{"name": "a", "type": "list_int", "value": 1}]), "E10030"),
        (add(attr=[{"name": "a", "type": "list_list_int", "value": [1]}]), "E10030"), (add(attr=[{"name": "a", "value": 1}]), "E10030"),
        (add(attr=[{"name": "a", "type": "data_type", "value": "int33"}]), "E10030"), (add(attr=[{"name": "a", "type": "int", "value": 1 << 64}]), "E10030"),
    ],
)  # fmt: skip
def test_other_mistakes_have_their_codes(tmp_path: Path, row: Any, code: str) -> None:
    with pytest.raises(AtcError) as caught:
        read(write(tmp_path, [row]))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "code"), [("{", "E10025"), ("", "E10025"), ("7", "E10023"), ("[]", "E10023"), ("[" * 100_000, "E10025")]
)
def test_what_is_no_list_of_operators(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(AtcError) as caught:
        read(write(tmp_path, text))
    assert caught.value.code == code


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        read(tmp_path / "none.json")
    assert caught.value.code == "E10024"


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_an_add_computes_the_sum(tmp_path: Path) -> None:
    graph = to_graph(read_one(tmp_path, add()))
    x = np.arange(9, dtype=np.int32).reshape(3, 3)
    np.testing.assert_array_equal(run(graph, x, x + 1)[0], 2 * x + 1)


def test_constants_are_part_of_the_graph(tmp_path: Path) -> None:
    row = add(
        input_desc=[desc([3], "int32"), desc([3], "int32", is_const=True, const_value=[1, 2, 3])],
        output_desc=[desc([3], "int32")],
    )
    graph = to_graph(read_one(tmp_path, row))
    assert len(graph.inputs) == 1
    np.testing.assert_array_equal(run(graph, np.array([1, 1, 1], np.int32))[0], [2, 3, 4])


def test_the_manual_s_gemm(tmp_path: Path) -> None:
    tensors = [
        desc([16, 8], "float16"),
        desc([8, 4], "float16"),
        desc([16, 4], "float16"),
        desc([], "float16"),
        desc([], "float16"),
    ]
    flags = [
        {"name": "transpose_a", "type": "bool", "value": False},
        {"name": "transpose_b", "type": "bool", "value": False},
    ]
    graph = to_graph(
        read_one(
            tmp_path, {"op": "GEMM", "input_desc": tensors, "output_desc": [desc([16, 4], "float16")], "attr": flags}
        )
    )
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 8), (8, 4), (16, 4)))
    computed = run(graph, a, b, c, np.array(2, np.float16), np.array(0.5, np.float16))[0]
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + 0.5 * c
    np.testing.assert_allclose(computed.astype(np.float64), expected, rtol=1e-2, atol=1e-2)


def test_absent_inputs_and_variadic_ones(tmp_path: Path) -> None:
    tensors = [desc([2, 2], dynamic_input="x")] * 3
    row = {
        "op": "AccumulateNV2",
        "input_desc": tensors,
        "output_desc": [desc([2, 2])],
        "attr": [{"name": "N", "type": "int", "value": 3}],
    }
    graph = to_graph(read_one(tmp_path, row))
    node = next(node for node in graph.nodes if node.type == "AccumulateNV2")
    assert node.input_names == ["x0", "x1", "x2"]
    absent = {"format": "RESERVED", "type": "UNDEFINED"}
    groups = [{"name": "num_groups", "type": "int", "value": 2}]
    row = {
        "op": "GroupNormSilu",
        "input_desc": [desc([1, 4, 2, 2]), absent, absent],
        "output_desc": [desc([1, 4, 2, 2]), desc([1, 2]), desc([1, 2])],
        "attr": groups,
    }
    graph = to_graph(read_one(tmp_path, row))
    assert len(graph.inputs) == 1
    assert len(graph.outputs) == 3


def test_unknown_dims_come_with_ranges(tmp_path: Path) -> None:
    row = add(
        input_desc=[desc([-1, 3], "int32", shape_range=[[1, 8]]), desc([1, 3], "int32")],
        output_desc=[desc([-1, 3], "int32")],
    )
    graph = to_graph(read_one(tmp_path, row))
    assert graph.inputs[0].output.ranges == ((1, 8), (3, 3))
    assert graph.outputs[0].value.shape == (-1, 3)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (add(op="NoSuchOperator"), "E10501"),
        (add(input_desc=[desc([3, 3], "int32")]), "E10028"), (add(input_desc=[desc([3, 3], "int32")] * 3), "E10028"), (add(op="../relu"), "E10501"), (add(op="_lower"), "E10501"), (add(output_desc=[desc([3, 4], "int32")]), "E10027"),
        (add(output_desc=[desc([3, 3], "float")]), "E10027"), ({"op": "Muls", "input_desc": [desc([3])], "output_desc": [desc([3])]}, "E14001"),
        ({"op": "Relu", "input_desc": [desc([1, 1, 2, 2, 8], form="NC1HWC0", type="float")], "output_desc": [desc([3])]}, "E10027"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together(tmp_path: Path, row: Any, code: str) -> None:
    with pytest.raises(AtcError) as caught:
        to_graph(read_one(tmp_path, row))
    assert caught.value.code == code


def test_one_element_may_have_another_rank(tmp_path: Path) -> None:
    row = {
        "op": "SquareSumV1",
        "input_desc": [desc([4])],
        "output_desc": [desc([1])],
        "attr": [
            {"name": "axis", "type": "list_int", "value": [0]},
            {"name": "keep_dims", "type": "bool", "value": False},
        ],
    }
    computed = run(to_graph(read_one(tmp_path, row)), np.arange(4, dtype=np.float32))[0]
    assert computed.shape == (1,)
    assert computed[0] == 14


def test_private_formats_are_stored_as_they_are_described(tmp_path: Path) -> None:
    more = {"origin_shape": [1, 3, 2, 2], "origin_format": "NCHW"}
    stored = desc([1, 1, 2, 2, 16], "float", "NC1HWC0", **more)
    graph = to_graph(read_one(tmp_path, {"op": "Exp", "input_desc": [stored], "output_desc": [stored]}))
    x = np.random.default_rng(2).standard_normal((1, 3, 2, 2)).astype(np.float32)
    padded = np.zeros((1, 16, 2, 2), np.float32)
    padded[:, :3] = x
    computed = run(graph, padded.reshape(1, 1, 16, 2, 2).transpose(0, 1, 3, 4, 2).copy())[0]
    expected = np.zeros((1, 16, 2, 2), np.float32)
    expected[:, :3] = np.exp(x)
    np.testing.assert_allclose(computed.transpose(0, 1, 4, 2, 3).reshape(1, 16, 2, 2), expected, rtol=1e-6)


def test_the_key_is_plain_json(tmp_path: Path) -> None:
    row = add(attr=[{"name": "b", "type": "list_int", "value": [1]}, {"name": "a", "type": "float", "value": 1}])
    key = read_one(tmp_path, row).key()
    assert json.loads(json.dumps(key)) == key
    assert list(key["attrs"]) == ["a", "b"]
    assert key["inputs"][0] == [3, 2, [3, 3]]
