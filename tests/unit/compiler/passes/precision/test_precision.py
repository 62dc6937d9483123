"""Precision modes: which nodes change, the Casts between them, the numbers (NumPy's float16), and the files beside the mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node as op

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.table import rename
from softnpu.compiler.options.rows import Options as AtcOptions
from softnpu.compiler.passes.convolution import conv_relu
from softnpu.compiler.passes.precision.apply import MODES, Options, apply, apply_options, convert, is_mixed
from softnpu.compiler.passes.precision.files import (
    BLACK,
    WHITE,
    Custom,
    Keep,
    MixLists,
    read_customize_dtypes,
    read_keep_dtype,
    read_modify_mixlist,
)
from softnpu.graph.ir import Constant, Graph, Output
from tests.unit.compiler.onnx_graphs import compute, load, model, original, types

FLOAT, HALF = 0, 1


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32)


def bf16(array: np.ndarray) -> np.ndarray:
    """Nearest bfloat16, halfway to even, written down with frexp: 8 significant bits."""
    fraction, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent).astype(np.float32)


def dtype_of(graph: Graph, name: str) -> int:
    return next(value.dtype for value in graph.values() if value.name == name)


def dense(tmp_path: Path, tail: str = "Relu") -> Graph:
    nodes = [op("MatMul", ["x", "w"], ["m"], name="product"), op(tail, ["m"], ["y"], name="last")]
    graph = load(model(nodes, {"x": [2, 3]}, ["y"], {"w": rand(3, 4)}), tmp_path)
    rename(graph)
    return graph


def test_nothing_is_asked_nothing_happens(tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph) == 0
    assert types(graph) == ["MatMulV2", "Relu"]


@pytest.mark.parametrize("mode", ["force_fp16", "fp16"])
def test_everything_in_float16(mode: str, tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph, mode) == 2
    assert types(graph) == ["Cast", "MatMulV2", "Relu", "Cast"]
    assert [dtype_of(graph, name) for name in ("x", "m", "y")] == [FLOAT, HALF, HALF]
    assert graph.outputs[0].value.dtype == FLOAT
    x = rand(2, 3, seed=1)
    for optimised in (False, True):
        computed = compute(graph, {"x": x}, optimised)[0]
        assert computed.dtype == np.float32
        np.testing.assert_array_equal(computed, np.maximum(half(half(x) @ half(rand(3, 4))), 0))


def test_a_whole_block_in_float16(tmp_path: Path) -> None:
    nodes = [
        op("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        op("BatchNormalization", ["c", "s", "b", "b", "v"], ["n"]),
        op("Relu", ["n"], ["r"]),
        op("Resize", ["r", "", "scales"], ["z"], mode="nearest"),
        op("Shape", ["z"], ["shape"]),
        op("Reshape", ["r", "flat"], ["f"]),
        op("Softmax", ["f"], ["p"]),
        op("TopK", ["p", "k"], ["y", "i"]),
    ]
    weights = {
        "w": rand(4, 3, 3, 3), "b": rand(4), "s": rand(4, seed=1), "v": np.ones(4, np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32), "flat": np.array([2, -1], np.int64), "k": np.array([3], np.int64),
    }  # fmt: skip
    proto = model(nodes, {"x": [2, 3, 5, 5]}, ["y", "i", "z", "shape"], weights)
    graph = load(proto, tmp_path)
    rename(graph)
    assert apply(graph, "force_fp16") == 6
    assert dtype_of(graph, "z") == FLOAT  # Resize keeps its type
    assert dtype_of(graph, "scales") == FLOAT
    assert dtype_of(graph, "i") == 9
    feeds = {"x": rand(2, 3, 5, 5, seed=2)}
    computed, expected = compute(graph, feeds), original(proto, feeds)
    for mine, theirs in zip(computed, expected, strict=True):
        assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(computed[0], expected[0], rtol=2e-2, atol=1e-3)
    np.testing.assert_allclose(computed[2], expected[2], rtol=1e-2, atol=1e-2)
    assert computed[3].tolist() == expected[3].tolist()


def test_fused_nodes_change_as_one(tmp_path: Path) -> None:
    proto = model(
        [op("Conv", ["x", "w"], ["c"]), op("Relu", ["c"], ["y"])], {"x": [1, 3, 5, 5]}, ["y"], {"w": rand(4, 3, 3, 3)}
    )
    graph = load(proto, tmp_path)
    assert conv_relu.run(graph) == (1, 1)
    assert apply(graph, "force_fp16") == 1
    assert types(graph) == ["Cast", "Conv2D", "Cast"]
    feeds = {"x": rand(1, 3, 5, 5, seed=1)}
    np.testing.assert_allclose(compute(graph, feeds)[0], original(proto, feeds)[0], rtol=1e-2, atol=2e-2)


def test_native_nodes_change_too() -> None:
    graph = Graph("g", framework=3)
    x = graph.data_node("x", FLOAT, (2, 4)).output
    node = graph.op("BiasAdd", [x, graph.const(rand(4), "b")], "bias", data_format="NHWC")
    node.output.dtype, node.output.shape = FLOAT, (2, 4)
    relu = graph.op("Relu", [node.output], "relu")
    relu.output.dtype, relu.output.shape = FLOAT, (2, 4)
    graph.outputs.append(Output(relu.output, "y"))
    assert apply(graph, "fp16") == 2
    data = rand(2, 4, seed=1)
    expected = np.maximum(half(half(data) + half(rand(4))), 0)
    np.testing.assert_array_equal(compute(graph, {"x": data})[0], expected)


def test_operators_for_which_onnx_has_no_float16_change_too(tmp_path: Path) -> None:
    nodes = [op("Relu", ["x"], ["a"]), op("CumSum", ["a", "axis"], ["b"]), op("Neg", ["b"], ["y"])]
    graph = load(model(nodes, {"x": [2, 3]}, ["y"], {"axis": np.array(1)}, opset=11), tmp_path)
    assert apply(graph, "force_fp16") == 3
    x = rand(2, 3)
    np.testing.assert_array_equal(compute(graph, {"x": x})[0], -half(np.cumsum(half(np.maximum(x, 0)), 1)))


def test_bodies_keep_their_type(tmp_path: Path) -> None:
    from onnx import helper

    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branch = helper.make_graph([op("Abs", ["r"], ["z"])], "body", [], [value])
    other = helper.make_graph([op("Neg", ["r"], ["z"])], "body", [], [value])
    nodes = [op("Relu", ["x"], ["r"]), op("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    proto = model(nodes, {"x": [2, 3], "c": (TensorProto.BOOL, [])}, ["y"])
    graph = load(proto, tmp_path)
    assert apply(graph, "force_fp16") == 1
    feeds = {"x": half(rand(2, 3)), "c": np.array(False)}
    np.testing.assert_array_equal(compute(graph, feeds)[0], original(proto, feeds)[0])


# ---- the other modes -------------------------------------------------------------------------------------------------


def test_the_cube_takes_float16_and_gives_float32(tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph, "cube_fp16in_fp32out") == 1
    assert types(graph) == ["Cast", "MatMulV2", "Relu"]
    assert dtype_of(graph, "m") == FLOAT
    x = rand(2, 3, seed=1)
    expected = np.maximum(half(x) @ half(rand(3, 4)), 0)
    for optimised in (False, True):
        np.testing.assert_allclose(compute(graph, {"x": x}, optimised)[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "origin", "force_fp32"])
def test_the_origin_stays_where_the_cube_has_float32(mode: str, tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph, mode) == 0
    assert types(graph) == ["MatMulV2", "Relu"]
    assert apply(graph, mode, Options(cube_fp32=False)) == 1
    x = rand(2, 3, seed=1)
    np.testing.assert_allclose(
        compute(graph, {"x": x})[0], np.maximum(half(x) @ half(rand(3, 4)), 0), rtol=1e-6, atol=1e-6
    )


def test_what_the_chip_lacks_is_lowered(tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph, "allow_fp32_to_fp16") == 0
    assert apply(graph, "allow_fp32_to_fp16", Options(cube_fp32=False)) == 1
    assert types(graph) == ["Cast", "MatMulV2", "Cast", "Relu"]


@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_fp16", "mixed_float16"])
def test_mixed_precision_follows_the_lists(mode: str, tmp_path: Path) -> None:
    assert is_mixed(mode)
    nodes = [
        op("Sigmoid", ["x"], ["s"]),  # gray, of a float32 input
        op("MatMul", ["s", "w"], ["m"]),  # white
        op("Sigmoid", ["m"], ["t"]),  # gray, of a float16 input
        op("Log", ["t"], ["l"]),  # black
        op("Add", ["l", "t"], ["y"]),  # gray, of both
    ]
    graph = load(model(nodes, {"x": [2, 3]}, ["y"], {"w": rand(3, 3)}), tmp_path)
    rename(graph)
    assert apply(graph, mode) == 2
    assert {name: dtype_of(graph, name) for name in "smtly"} == {
        "s": FLOAT,
        "m": HALF,
        "t": HALF,
        "l": FLOAT,
        "y": FLOAT,
    }
    assert sum(kind == "Cast" for kind in types(graph)) == 2  # the way back to float32 is shared


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "mixed_bfloat16"])
def test_bfloat16_is_rounded(mode: str, tmp_path: Path) -> None:
    graph = dense(tmp_path)
    assert apply(graph, mode) == 2
    x = rand(2, 3, seed=1)
    expected = np.maximum(bf16(bf16(x) @ bf16(rand(3, 4))), 0)
    for optimised in (False, True):
        np.testing.assert_array_equal(compute(graph, {"x": x}, optimised)[0], expected)
    lacking = dense(tmp_path)
    assert apply(lacking, "allow_fp32_to_bf16", Options(cube_fp32=False)) == 1


def test_the_rounding_of_constants_to_bfloat16() -> None:
    numbers = np.array([1.0, 1.00390625, 1.01171875, -3.3e38, 1e-3, np.inf, 0.0, -1e-38], np.float32)
    rounded = convert(Constant.of(numbers), 27)
    assert (rounded.dtype, rounded.shape) == (27, (8,))
    back = (np.frombuffer(rounded.data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(back, bf16(numbers))
    no_number = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    words = np.frombuffer(convert(Constant.of(no_number), 27).data, np.uint16).astype(np.uint32) << 16
    assert np.isnan(words.view(np.float32)).all()


def test_an_unknown_mode_is_e10001(tmp_path: Path) -> None:
    for mode in ("fast", "cube_hif8"):
        with pytest.raises(AtcError) as caught:
            apply(dense(tmp_path), mode)
        assert caught.value.code == "E10001"
    assert set(MODES) >= {"force_fp16", "origin", "mixed_float16"}


@pytest.mark.parametrize(("clip", "expected"), [(True, [65504, -65504, 1]), (False, [np.inf, -np.inf, 1])])
def test_weights_are_clipped(clip: bool, expected: list[float], tmp_path: Path) -> None:
    weight = np.array([1e6, -np.inf, 1], np.float32)
    graph = load(model([op("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"], {"w": weight}), tmp_path)
    apply(graph, "force_fp16", Options(clip=clip))
    stored = next(node.data for node in graph.nodes if node.type == "Const")
    assert stored is not None and stored.dtype == HALF
    assert stored.array().tolist() == expected


# ---- files -----------------------------------------------------------------------------------------------------------


def file(folder: Path, text: str) -> Path:
    path = folder / "list.cfg"
    path.write_text(text)
    return path


def test_the_file_of_keep_dtype_is_read(tmp_path: Path) -> None:
    keep = read_keep_dtype(file(tmp_path, "last\n\nOpType::Softmax\n"))
    assert keep == Keep(frozenset({"last"}), frozenset({"Softmax"}))
    graph = dense(tmp_path)
    assert apply(graph, "force_fp16", Options(keep=keep)) == 1
    assert dtype_of(graph, "y") == FLOAT
    by_type = dense(tmp_path)
    assert apply(by_type, "force_fp16", Options(keep=Keep(types=frozenset({"MatMulV2"})))) == 1
    assert dtype_of(by_type, "m") == FLOAT


def test_the_options_of_a_conversion(tmp_path: Path) -> None:
    def run(**texts: str) -> list[str]:
        graph = dense(tmp_path)
        apply_options(graph, AtcOptions(texts))
        return types(graph)

    plain = ["MatMulV2", "Relu"]
    assert run() == plain  # the default of the option is force_fp16, but nobody asked
    assert run(precision_mode="force_fp16") == run(precision_mode_v2="fp16") == ["Cast", *plain, "Cast"]
    assert run(precision_mode_v2="origin", soc_version="Ascend910B3") == plain
    assert run(precision_mode_v2="origin", soc_version="Ascend310P3") == ["Cast", *plain]
    keep = str(file(tmp_path, "last"))
    assert run(precision_mode="force_fp16", keep_dtype=keep) == ["Cast", "MatMulV2", "Cast", "Relu"]
    assert run(keep_dtype=keep) == plain
    with pytest.raises(AtcError):
        run(precision_mode="force_fp16", modify_mixlist=str(file(tmp_path, "{}")))


def test_weights_are_clipped_unless_the_option_says_no(tmp_path: Path) -> None:
    for clip, expected in ((1, 65504.0), (0, np.inf)):
        graph = load(
            model([op("Add", ["x", "w"], ["y"])], {"x": [1]}, ["y"], {"w": np.array([1e6], np.float32)}), tmp_path
        )
        apply_options(graph, AtcOptions({"precision_mode": "force_fp16", "is_weight_clip": clip}))
        weight = next(node.data for node in graph.nodes if node.type == "Const")
        assert weight is not None and weight.array().tolist() == [expected]


def test_the_file_of_modify_mixlist_is_read(tmp_path: Path) -> None:
    text = '{"black-list": {"to-add": ["MatMulV2"], "to-remove": ["Log"]}, "white-list": {"to-add": ["Relu"]}, "gray-list": {"to-add": ["Conv2D"]}}'
    lists = read_modify_mixlist(file(tmp_path, text), mixed=True)
    assert lists == MixLists(WHITE - {"MatMulV2", "Conv2D"} | {"Relu"}, BLACK - {"Log"} | {"MatMulV2"})
    graph = dense(tmp_path)
    assert apply(graph, "mixed_float16", Options(lists=lists)) == 1
    assert (dtype_of(graph, "m"), dtype_of(graph, "y")) == (FLOAT, HALF)


def test_the_file_of_customize_dtypes_is_read(tmp_path: Path) -> None:
    text = "last::InputDtype:float16,OutputDtype:float16\nOpType::MatMulV2:InputDtype:float32, float32,OutputDtype:float32\n"
    custom = read_customize_dtypes(file(tmp_path, text))
    assert custom == Custom({"last": ([1], [1])}, {"MatMulV2": ([0, 0], [0])})
    graph = dense(tmp_path)
    apply(graph, "force_fp16", Options(custom=custom))
    assert (dtype_of(graph, "m"), dtype_of(graph, "y")) == (FLOAT, HALF)
    mixed = dense(tmp_path)
    apply(mixed, "", Options(custom=Custom({"product": ([1, 1], [0])})))
    assert types(mixed) == ["Cast", "MatMulV2", "Relu"]
    x = rand(2, 3, seed=1)
    np.testing.assert_allclose(
        compute(mixed, {"x": x})[0], np.maximum(half(x) @ half(rand(3, 4)), 0), rtol=1e-6, atol=1e-6
    )


def test_customize_dtypes_beats_the_others(tmp_path: Path) -> None:
    custom = Custom({"last": ([1], [1])}, {"Relu": ([0], [0])})
    graph = dense(tmp_path)
    apply(graph, "origin", Options(custom=custom, keep=Keep(frozenset({"last"}))))
    assert dtype_of(graph, "y") == HALF


@pytest.mark.parametrize("given", [([1, 1, 1], []), ([3, 3], []), ([1, 1], [9]), ([1, 1], [0, 0])])
def test_types_that_cannot_be_are_e10001(given, tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        apply(dense(tmp_path), "", Options(custom=Custom({"product": given})))
    assert caught.value.code == "E10001"
    assert "product" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"pink-list": {}}',
        '{"black-list": []}',
        '{"black-list": {"add": []}}',
        '{"black-list": {"to-add": "X"}}',
        '{"black-list": {"to-add": [1]}}',
        '{"black-list": {"to-add": ["X"]}, "white-list": {"to-add": ["X"]}}',
    ],
)
def test_bad_mixlists_are_e10001(text: str, tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        read_modify_mixlist(file(tmp_path, text), mixed=True)
    assert caught.value.code == "E10001"


@pytest.mark.parametrize(
    "text", ["last", "last::InputDtype:float16", "a::InputDtype:f12,OutputDtype:float16", "a::OutputDtype:float16"]
)
def test_bad_custom_types_are_e10001(text: str, tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        read_customize_dtypes(file(tmp_path, text))
    assert caught.value.code == "E10001"
    with pytest.raises(AtcError):
        read_customize_dtypes(file(tmp_path, "a::InputDtype:float16,OutputDtype:float16\n" * 2))


def test_files_that_cannot_be_read_are_e10001(tmp_path: Path) -> None:
    for reader in (read_keep_dtype, read_customize_dtypes, lambda path: read_modify_mixlist(path, True)):
        with pytest.raises(AtcError) as caught:
            reader(tmp_path / "none")
        assert caught.value.code == "E10001"
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AtcError):
        read_keep_dtype(tmp_path / "binary")
    with pytest.raises(AtcError):
        read_keep_dtype(file(tmp_path, "OpType::"))
    with pytest.raises(AtcError) as caught:
        read_modify_mixlist(file(tmp_path, "{}"), mixed=False)
    assert "mixed" in caught.value.message
